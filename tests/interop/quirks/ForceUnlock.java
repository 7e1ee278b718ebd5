// SPDX-License-Identifier: BSD-2-Clause

import org.redisson.Redisson;
import org.redisson.config.Config;

/** Ends a lock that it does not have. usage: ForceUnlock RESOURCE URL */
public final class ForceUnlock {
    public static void main(String[] words) {
        Config config = new Config();
        config.useSingleServer().setAddress(words[1]);
        System.out.println(Redisson.create(config).getLock(words[0]).forceUnlock());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
