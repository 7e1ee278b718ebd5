// SPDX-License-Identifier: BSD-2-Clause
package redlock;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;

/** Where the library comes from, and what of the C library the binding calls. */
final class Native {
    private static final Linker LINKER = Linker.nativeLinker();
    private static final SymbolLookup LIBRARY = load();
    private static final MethodHandle POLL = system("poll", FunctionDescriptor.of(JAVA_INT, ValueLayout.ADDRESS, JAVA_LONG, JAVA_INT));
    private static final MethodHandle EVENTFD = system("eventfd", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));
    private static final MethodHandle EVENTFD_WRITE = system("eventfd_write", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG));
    private static final MethodHandle CLOSE = system("close", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
    private static final int EFD_CLOEXEC = 02000000;
    private static final short POLLIN = 1;

    private Native() {}

    /** The library of the property redlock.library, else the one in the jar, else the system's. */
    private static SymbolLookup load() {
        String given = System.getProperty("redlock.library");
        if (given != null) return SymbolLookup.libraryLookup(Path.of(given), Arena.global());
        String arch = System.getProperty("os.arch").replace("amd64", "x86_64");
        try (InputStream inside = Native.class.getResourceAsStream("/linux-" + arch + "/libredlock.so")) {
            return inside != null ? unpacked(inside) : SymbolLookup.libraryLookup("libredlock.so.0", Arena.global());
        } catch (IllegalArgumentException e) {
            throw new UnsatisfiedLinkError("the jar has no library for " + arch + ", and the system has no libredlock.so.0: install "
                    + "libredlock0, or set -Dredlock.library=PATH (" + e.getMessage() + ")");
        } catch (IOException e) {
            throw new UncheckedIOException("the library cannot be unpacked: set -Djava.io.tmpdir=DIRECTORY or -Dredlock.library=PATH", e);
        }
    }

    private static SymbolLookup unpacked(InputStream inside) throws IOException {
        Path file = Files.createTempFile("libredlock", ".so");
        try {
            Files.copy(inside, file, StandardCopyOption.REPLACE_EXISTING);
            return SymbolLookup.libraryLookup(file, Arena.global());
        } finally {
            Files.delete(file);
        }
    }

    static MethodHandle function(String name, FunctionDescriptor type) {
        return LINKER.downcallHandle(LIBRARY.find(name).orElseThrow(() -> new UnsatisfiedLinkError(
                "the library has no " + name + "(): it is older than this jar")), type);
    }

    private static MethodHandle system(String name, FunctionDescriptor type) {
        return LINKER.downcallHandle(LINKER.defaultLookup().find(name).orElseThrow(), type);
    }

    /** The address of a static method of `home`, for C to call. */
    static MemorySegment stub(MethodHandles.Lookup home, String name, FunctionDescriptor type) {
        try {
            return LINKER.upcallStub(home.findStatic(home.lookupClass(), name, type.toMethodType()), type, Arena.global());
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    static int eventfd() {
        try {
            return (int) EVENTFD.invokeExact(0, EFD_CLOEXEC);
        } catch (Throwable impossible) {
            throw new AssertionError(impossible);
        }
    }

    static void signal(int eventfd) {
        try {
            int ignored = (int) EVENTFD_WRITE.invokeExact(eventfd, 1L);
        } catch (Throwable impossible) {
            throw new AssertionError(impossible);
        }
    }

    static void close(int fd) {
        try {
            int ignored = (int) CLOSE.invokeExact(fd);
        } catch (Throwable impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** A string with half of a surrogate pair has no UTF-8: "?" in its place would be another name. */
    static byte[] utf8(String text) {
        try {
            ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            return Arrays.copyOf(bytes.array(), bytes.limit());
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("a text with half of a surrogate pair: it has no UTF-8");
        }
    }

    /** For C, which takes a NUL as the end. */
    static MemorySegment text(Arena arena, String text) {
        if (text.indexOf(0) >= 0) throw new IllegalArgumentException("a text with a NUL, at " + text.indexOf(0));
        byte[] bytes = utf8(text);
        return bytes(arena, Arrays.copyOf(bytes, bytes.length + 1));
    }

    static MemorySegment bytes(Arena arena, byte[] bytes) {
        return arena.allocateFrom(ValueLayout.JAVA_BYTE, bytes);
    }

    /** Two struct pollfd. */
    static MemorySegment pollfds(Arena arena, int first, int second) {
        MemorySegment fds = arena.allocate(16, 4);
        fds.set(JAVA_INT, 0, first);
        fds.set(JAVA_SHORT, 4, POLLIN);
        fds.set(JAVA_INT, 8, second);
        fds.set(JAVA_SHORT, 12, POLLIN);
        return fds;
    }

    /** Waits until one of them is readable. */
    static void poll(MemorySegment fds) {
        try {
            int ignored = (int) POLL.invokeExact(fds, 2L, -1);
        } catch (Throwable impossible) {
            throw new AssertionError(impossible);
        }
    }
}
