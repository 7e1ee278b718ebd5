// SPDX-License-Identifier: BSD-2-Clause
package redlock;

/** Why an operation failed, in the words of the command line. It contains no secret. */
public class RedlockException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final Result result;
    private final String sentence;
    private final String cure;

    RedlockException(Result result, String resource, String sentence, String cure) {
        super((resource.isEmpty() ? "" : resource + ": ") + sentence + (cure.isEmpty() ? "" : "\n" + cure));
        this.result = result;
        this.sentence = sentence;
        this.cure = cure;
    }

    static RedlockException of(int number, String resource, String sentence, String cure) {
        Result result = Result.of(number);
        return switch (result) {
            case HELD -> new Held(resource, sentence, cure);
            case NO_QUORUM -> new NoQuorum(resource, sentence, cure);
            case LOST -> new Lost(resource, sentence, cure);
            default -> new RedlockException(result, resource, sentence, cure);
        };
    }

    /** What the operation ended with. */
    public Result result() {
        return result;
    }

    /** What is wrong, with the values and the nodes. */
    public String sentence() {
        return sentence;
    }

    /** What to do: a command or a setting; empty if nothing is known. */
    public String cure() {
        return cure;
    }

    /** Another client has the lock. */
    public static final class Held extends RedlockException {
        private static final long serialVersionUID = 1;

        Held(String resource, String sentence, String cure) {
            super(Result.HELD, resource, sentence, cure);
        }
    }

    /** Too few nodes answered: nobody can know who has the lock. */
    public static final class NoQuorum extends RedlockException {
        private static final long serialVersionUID = 1;

        NoQuorum(String resource, String sentence, String cure) {
            super(Result.NO_QUORUM, resource, sentence, cure);
        }
    }

    /** The lock is not, or no longer, ours. */
    public static final class Lost extends RedlockException {
        private static final long serialVersionUID = 1;

        Lost(String resource, String sentence, String cure) {
            super(Result.LOST, resource, sentence, cure);
        }
    }
}
