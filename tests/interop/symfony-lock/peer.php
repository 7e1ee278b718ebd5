<?php
// SPDX-License-Identifier: BSD-2-Clause
//
// Symfony's Lock component on the same locks: a majority of RedisStores, its defaults. It and phpredis come from the
// distribution (php-symfony-lock, php-redis). ../README.md has the protocol. usage: php peer.php URL ... | --check

use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Lock;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Strategy\ConsensusStrategy;

const AUTOLOAD = '/usr/share/php/Symfony/Component/Lock/autoload.php';

function say(array $told): void
{
    echo json_encode($told, JSON_UNESCAPED_SLASHES), "\n";
    flush();
}

function now_ms(): int
{
    return intdiv(hrtime(true), 1000000);
}

/** Both are the distribution's; ends the program when one is not there. */
function check(): void
{
    if (!extension_loaded('redis') || !is_file(AUTOLOAD)) {
        fwrite(STDERR, "error: php-redis or php-symfony-lock is not installed\n");
        exit(1);
    }
}

function version_of(string $package): string
{
    $said = shell_exec("dpkg-query -W -f '\${Version}' " . escapeshellarg($package) . ' 2>/dev/null');
    return preg_match('/^(?:\d+:)?([0-9.]+)/', (string) $said, $found) ? $found[1] : 'unknown';
}

class Peer
{
    private array $locks = [];
    private array $clients = [];

    public function __construct(array $urls)
    {
        foreach ($urls as $url) {
            $client = new Redis();
            $client->connect(parse_url($url, PHP_URL_HOST), parse_url($url, PHP_URL_PORT));
            $this->clients[] = $client;
        }
    }

    /** It tries every 100 ms for as long as it takes, or once; so waiting for a while is to try again and again. */
    private function take(string $resource, int $ttl_ms, int $wait_ms): ?Lock
    {
        $stores = array_map(fn ($client) => new RedisStore($client, $ttl_ms / 1000), $this->clients);
        $store = new CombinedStore($stores, new ConsensusStrategy());
        $end = now_ms() + $wait_ms;
        while (true) {
            $lock = new Lock(new Key($resource), $store, $ttl_ms / 1000, false);
            if ($lock->acquire()) {
                return $lock;
            }
            if (now_ms() >= $end) {
                return null;
            }
            usleep((100 + random_int(-10, 10)) * 1000);
        }
    }

    public function acquire(string $resource, string $ttl_ms, string $wait_ms): array
    {
        $lock = $this->take($resource, (int) $ttl_ms, (int) $wait_ms);
        if ($lock === null) {
            return ['ok' => false, 'why' => 'held by another'];
        }
        $this->locks[$resource] = $lock;
        return ['ok' => true];
    }

    public function extend(string $resource, string $ttl_ms): array
    {
        $this->locks[$resource]->refresh((int) $ttl_ms / 1000);
        return ['ok' => true];
    }

    public function release(string $resource): array
    {
        $this->locks[$resource]->release();
        return ['ok' => true];
    }

    /** Not atomic on purpose: whoever looks meanwhile finds it empty. */
    private function turn(string $path): void
    {
        $text = file_get_contents($path);
        if (!ctype_digit($text)) {
            fwrite(STDERR, "the counter is \"$text\"\n");
            exit(1);
        }
        usleep(2000);
        file_put_contents($path, (int) $text + 1);
    }

    public function count(string $resource, string $path, string $seconds, string $ttl_ms): array
    {
        $turns = $failed = 0;
        $end = now_ms() + (int) $seconds * 1000;
        while (($left = $end - now_ms()) > 0) {
            try {
                $lock = $this->take($resource, (int) $ttl_ms, $left);
            } catch (Exception $error) {
                $lock = null;
                usleep(10000);
            }
            if ($lock === null) {
                $failed++;
                continue;
            }
            $this->turn($path);
            $turns++;
            try {
                $lock->release();
            } catch (Exception $error) { // it has counted, whether or not all nodes know that it is over
                fwrite(STDERR, $error->getMessage() . "\n");
            }
        }
        return ['turns' => $turns, 'failed' => $failed];
    }
}

check();
if ($argv[1] === '--check') {
    exit(0);
}
require AUTOLOAD;
$peer = new Peer(array_slice($argv, 1));
say(['ready' => true, 'name' => 'symfony-lock', 'version' => version_of('php-symfony-lock'), 'key' => 'R',
    'token' => 'a sorted set: 44 characters base64, and "__write__"',
    'defaults' => ['ttl_ms' => 300000, 'tries' => 'once, or no limit', 'delay_ms' => '90 to 110', 'drift' => 'none',
        'nodes' => 'one after the other', 'phpredis' => phpversion('redis')]]);
while (($line = fgets(STDIN)) !== false && ($words = explode(' ', trim($line)))[0] !== 'quit') {
    try {
        say($peer->{$words[0]}(...array_slice($words, 1)));
    } catch (Exception $error) {
        say(['ok' => false, 'why' => get_class($error) . ': ' . $error->getMessage()]);
    }
}
