// SPDX-License-Identifier: BSD-2-Clause

import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.config.Config;

/** Waits for a lock, takes it for 2 s, and holds it to the end of its input. usage: LeaseGrows RESOURCE URL... */
public final class LeaseGrows {
    @SuppressWarnings("deprecation") // it is what is shown here
    public static void main(String[] words) throws IOException {
        RLock[] all = Arrays.stream(words).skip(1).map(url -> {
            Config config = new Config();
            config.useSingleServer().setAddress(url);
            return Redisson.create(config).getLock(words[0]);
        }).toArray(RLock[]::new);
        RLock lock = new RedissonRedLock(all);
        System.out.println("asking");
        System.out.flush();
        lock.lock(2, TimeUnit.SECONDS);
        System.out.println("locked");
        System.out.flush();
        System.in.read();
        Runtime.getRuntime().halt(0);
    }
}
