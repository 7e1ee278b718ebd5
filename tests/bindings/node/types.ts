// SPDX-License-Identifier: BSD-2-Clause
import { Client, Lock, LockLost, NoQuorum, RedlockError, version, type Leader } from 'libredlock';

export async function used(stop: AbortSignal): Promise<number> {
  const client: Client = new Client(['redis://a', 'redis://b'], { mode: 'guarded', nodeTimeout: 50, keyPrefix: Buffer.of(1) });
  const lock: Lock = await client.acquire('nightly', { ttl: 1000, wait: Infinity, signal: stop, slots: 3 });
  const maybe: Lock | null = await client.tryAcquire(['a', new Uint8Array(1)], { shared: false });
  const sum: number = lock.fence + lock.validity + lock.slot + (maybe?.token.length ?? 0) + version.length;
  const deleted: boolean = await lock.release();
  const text: string = await client.using('a', {}, async (held) => held.token);
  for await (const leader of client.observe('chair', { signal: stop })) {
    const known: Leader = leader;
    if (known.state === 'known') break;
  }
  const leading = await client.elect('chair', { id: 'me' });
  leading.signal.addEventListener('abort', () => { throw leading.signal.reason as LockLost; });
  const error: RedlockError | undefined = undefined as NoQuorum | undefined;
  // @ts-expect-error: a lock comes from acquire()
  new Lock();
  await new Client().close();
  // @ts-expect-error: no such mode
  new Client('redis://a', { mode: 'strict' });
  // @ts-expect-error: a number
  await client.acquire('a', { ttl: '30s' });
  // @ts-expect-error: an election has one resource
  await client.elect(['a', 'b']);
  // @ts-expect-error: read only
  lock.fence = 1;
  await client.unref().close();
  return sum + text.length + Number(deleted) + (error?.code.length ?? 0);
}
