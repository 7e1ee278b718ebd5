// SPDX-License-Identifier: BSD-2-Clause
//
// StackExchange.Redis on the same locks: LockTake, LockExtend, LockRelease. ../README.md has the protocol. usage: peer URL
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Threading;
using StackExchange.Redis;

public sealed class Peer
{
    private readonly IDatabase redis;
    private readonly Dictionary<string, string> locks = new Dictionary<string, string>();

    private Peer(string url)
    {
        Uri server = new Uri(url);
        redis = ConnectionMultiplexer.Connect($"{server.Host}:{server.Port},connectTimeout=15000").GetDatabase();
    }

    private static void Say(string json)
    {
        Console.Out.Write(json + "\n");
        Console.Out.Flush();
    }

    private static string Ok(bool well) => well ? "{\"ok\": true}" : "{\"ok\": false, \"why\": \"it says false\"}";

    private static TimeSpan Milliseconds(string word) => TimeSpan.FromMilliseconds(long.Parse(word));

    /// <summary>LockTake never waits: callers try again after a while. Null: not got.</summary>
    private string Take(string resource, TimeSpan ttl, TimeSpan wait)
    {
        Stopwatch since = Stopwatch.StartNew();
        string value = Guid.NewGuid().ToString();
        while (!redis.LockTake(resource, value, ttl))
        {
            if (since.Elapsed >= wait) return null;
            Thread.Sleep(50);
        }
        return value;
    }

    private string Acquire(string resource, TimeSpan ttl, TimeSpan wait)
    {
        string value = Take(resource, ttl, wait);
        if (value == null) return "{\"ok\": false, \"why\": \"held by another\"}";
        locks[resource] = value;
        return $"{{\"ok\": true, \"token\": \"{value}\"}}";
    }

    private string Count(string resource, string path, TimeSpan time, TimeSpan ttl)
    {
        Stopwatch since = Stopwatch.StartNew();
        int turns = 0, failed = 0;
        while (since.Elapsed < time)
        {
            string value = null;
            try { value = Take(resource, ttl, time - since.Elapsed); }
            catch (Exception error) when (error is RedisException || error is TimeoutException) { Thread.Sleep(10); }
            if (value == null)
            {
                failed++;
                continue;
            }
            long counter = long.Parse(File.ReadAllText(path)); // not atomic on purpose
            Thread.Sleep(2);
            File.WriteAllText(path, (counter + 1).ToString());
            turns++;
            try { redis.LockRelease(resource, value); }
            catch (Exception error) when (error is RedisException || error is TimeoutException) { Console.Error.WriteLine(error.Message); }
        }
        return $"{{\"turns\": {turns}, \"failed\": {failed}}}";
    }

    private string Obey(string[] words)
    {
        switch (words[0])
        {
            case "acquire": return Acquire(words[1], Milliseconds(words[2]), Milliseconds(words[3]));
            case "extend": return Ok(redis.LockExtend(words[1], locks[words[1]], Milliseconds(words[2])));
            case "release": return Ok(redis.LockRelease(words[1], locks[words[1]]));
            case "count": return Count(words[1], words[2], TimeSpan.FromSeconds(int.Parse(words[3])), Milliseconds(words[4]));
            default: throw new ArgumentException(words[0]);
        }
    }

    public static void Main(string[] urls)
    {
        Peer peer = new Peer(urls[0]);
        Version version = typeof(ConnectionMultiplexer).Assembly.GetName().Version;
        string informational = FileVersionInfo.GetVersionInfo(typeof(ConnectionMultiplexer).Assembly.Location).FileVersion;
        Say($"{{\"ready\": true, \"name\": \"StackExchange.Redis\", \"version\": \"{informational ?? version.ToString()}\", \"key\": \"R\", "
            + "\"token\": \"what the caller says\", \"defaults\": {\"ttl\": \"none: it is always said\", \"tries\": 1, \"drift\": \"none\"}}");
        for (string line; (line = Console.In.ReadLine()) != null && line != "quit";)
        {
            try { Say(peer.Obey(line.Split(' '))); }
            catch (Exception error) when (error is RedisException || error is TimeoutException)
            {
                Say($"{{\"ok\": false, \"why\": \"{error.GetType().Name}\"}}");
            }
        }
    }
}
