// A broker directory is open to the original and to plain scripts. What they do there, well or badly, loses nothing of ours.
import { afterEach, describe, expect, it, spyOn } from 'bun:test';
import {
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import {
  drainAway,
  inboxOf,
  leaveEntry,
  leaveMessage,
  listAt,
  openBrokerHome,
} from '../../../test/support/c2c-broker.ts';
import type { BrokerOptions, OpenBroker } from '../../../test/support/c2c-broker.ts';
import { aClock } from '../../../test/support/clock.ts';
import { drainedByScript, itWithScripts, startScript } from '../../../test/support/c2c-python.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, anEntry, bob, carol, copiesFor, QUIET } from '../../../test/support/mail.ts';
import { readArchive } from './archive.ts';
import { takeRepairs } from './files.ts';
import { LARGEST_LIST_BYTES } from '../../platform/files.ts';
import type { AgentName, MessageId } from '../../core/names.ts';

const LEASE = { ms: 30_000 };
const DONE = { disposition: 'acknowledged', by: { drained_by: 'cli_poll' } } as const;

const opened: OpenBroker[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

async function aBroker(options: BrokerOptions = {}): Promise<OpenBroker & { root: string }> {
  const root = temporaryHome();
  const home = await openBrokerHome(root, options);
  opened.push(home);
  return { root, ...home };
}

/** Everything that waits, taken as a reader does: what it said, oldest first. */
async function takeAll({ mailboxes }: OpenBroker, mailbox: AgentName = bob): Promise<string[]> {
  await mailboxes.adopt(mailbox);
  const claim = await mailboxes.claim(mailbox, await mailboxes.ids(mailbox), LEASE);
  const ids = claim.copies.map(({ message }) => message.id);
  if (ids.length > 0) expect(await mailboxes.settle(claim, ids, DONE)).toBe(true);
  return claim.copies.map(({ message }) => message.body);
}

const said = (content: string, more: object = {}) => ({ from_alias: 'script', to_alias: 'bob', content, ...more });

describe('what a script takes in the moment between its arrival and its sender’s note of that', () => {
  it('never comes again by us, also if a reader of ours was about to take it [C2C-3]', async () => {
    let drained: string[] = [];
    const home = await aBroker({
      onStep(step) {
        // The reader has seen both, and claims them now.
        if (step !== 'T1 claim' || drained.length > 0) return;
        drained = drainAway(home.root, bob).map(({ content }) => String(content));
        leaveEntry(home.root, bob, said('of a script'));
      },
    });
    // Its sender has accepted it and put it there, and lives: it has not come to say so.
    const entry = anEntry({ body: 'of ours' });
    await home.journal.acceptTogether([entry]);
    leaveMessage(home.root, bob, entry.message);
    leaveEntry(home.root, bob, said('of a script'));
    const seen = await home.mailboxes.ids(bob);
    await home.mailboxes.claim(bob, seen, LEASE);
    expect(drained).toEqual(['of ours', 'of a script']);
    await home.mailboxes.heal();
    expect(listAt(inboxOf(home.root, bob)).map(({ content }) => content)).not.toContain('of ours');
  });
});

describe('a claim while another reader holds many messages', () => {
  it('asks the ledger about them once a minute, in one query', async () => {
    const { now, pass } = aClock();
    const home = await aBroker({ now });
    for (let n = 0; n < 10; n += 1) await home.mailboxes.put(anEntry({ body: `${n}` }));
    const { copies } = await home.mailboxes.claim(bob, await home.mailboxes.ids(bob), { ms: 600_000 });
    expect(copies).toHaveLength(10);
    const open = spyOn(home.journal, 'open');
    const copy = spyOn(home.journal, 'copy');
    const asked = () => [open.mock.calls.length, copy.mock.calls.length];
    await home.mailboxes.claim(bob, [], LEASE);
    expect(asked()).toEqual([0, 0]);
    pass(60_000);
    for (let n = 0; n < 3; n += 1) await home.mailboxes.claim(bob, [], LEASE);
    expect(asked()).toEqual([1, 0]);
    // Anyone who puts the mailbox in order does not wait for the minute.
    await home.mailboxes.adopt(bob);
    expect(asked()).toEqual([2, 0]);
  });
});

describe('beside a plain script', () => {
  itWithScripts('both write 1,000 messages into one inbox at once, and none is lost or doubled [C2C-3]', async () => {
    const home = await aBroker();
    const script = startScript('add', inboxOf(home.root, bob), '1000,theirs ');
    await script.ready;
    script.go();
    for (let n = 0; n < 1000; n += 1) {
      await home.mailboxes.put(anEntry({ body: `ours ${n}` }));
      // The event loop must come round: the script's words are read there.
      await Bun.sleep(0);
    }
    await script.told;
    const all = await takeAll(home);
    const expected = Array.from({ length: 1000 }, (_, n) => [`ours ${n}`, `theirs ${n}`]).flat();
    expect(all.toSorted()).toEqual(expected.toSorted());
  });

  it('who reads an inbox without a lock finds it whole: another file is put in its place [C2C-3]', async () => {
    const home = await aBroker();
    const path = inboxOf(home.root, bob);
    await home.mailboxes.put(anEntry({ body: 'one' }));
    for (const change of [() => home.mailboxes.put(anEntry({ body: 'two' })), () => takeAll(home)]) {
      const before = readFileSync(path, 'utf8');
      const reader = openSync(path, 'r');
      await change();
      expect(readFileSync(path, 'utf8')).not.toBe(before);
      // Anyone who has begun to read goes on in the file as it was.
      expect(readFileSync(reader, 'utf8')).toBe(before);
      closeSync(reader);
      expect(readdirSync(home.root).filter((name) => name.includes('.tmp'))).toEqual([]);
    }
  });

  itWithScripts(
    'who drains an inbox gets all of ours as the original would write it, and we note it [C2C-3]',
    async () => {
      const home = await aBroker();
      const { message } = await home.mailboxes.put(anEntry({ body: 'for anyone who comes' }));
      const taken = await drainedByScript(home.root, bob);
      const seconds = Date.parse(message.ts) / 1000;
      const words = {
        from_alias: 'alice',
        to_alias: 'bob',
        content: 'for anyone who comes',
        ts: seconds,
        message_id: message.id,
      };
      expect(taken).toEqual([words]);
      expect(await takeAll(home)).toEqual([]);
      expect((await home.journal.copy(bob, message.id))?.state).toBe('gone');
      const steps = (await home.journal.trace(message.id))?.copies[0]?.receipts.map(({ step }) => step);
      expect(steps).toContain('taken_elsewhere');
    },
  );

  it.each(['S1 accept', 'S2 append', 'S2 appended one', 'S3 placed', 'S4 flushed', 'T1 claim', 'T1 claimed'])(
    'that drains the inbox at our step %s, each message is seen by exactly one of us [C2C-3]',
    async (fatal) => {
      const theirs: unknown[] = [];
      const home = await aBroker({
        onStep: (step) => {
          if (step === fatal) theirs.push(...drainAway(home.root, bob).map((entry) => entry['content']));
        },
      });
      await home.mailboxes.put(anEntry({ body: 'one' }));
      const ours = await takeAll(home);
      expect([...theirs, ...ours]).toEqual(['one']);
      await home.mailboxes.heal();
      expect([await takeAll(home), listAt(inboxOf(home.root, bob))]).toEqual([[], []]);
    },
  );

  it('finds what is in our hand no longer in the inbox, and again once we put it back', async () => {
    const home = await aBroker();
    const { message } = await home.mailboxes.put(anEntry());
    const claim = await home.mailboxes.claim(bob, [message.id], LEASE);
    expect(listAt(inboxOf(home.root, bob))).toEqual([]);
    await home.mailboxes.release(claim, [message.id], { because: 'test' });
    expect(listAt(inboxOf(home.root, bob))).toMatchObject([{ message_id: message.id }]);
  });

  it('that writes into the inbox in place is noticed by a watcher, also without a file event', async () => {
    const home = await aBroker();
    const path = inboxOf(home.root, bob);
    writeFileSync(path, '[]');
    // A write by a name in another folder makes no event in the folder that is watched.
    const elsewhere = `${temporaryHome()}/inbox`;
    linkSync(path, elsewhere);
    const { promise: called, resolve } = Promise.withResolvers<void>();
    const watch = home.mailboxes.watch(bob, resolve);
    writeFileSync(elsewhere, JSON.stringify([said('in place')]));
    await called;
    watch.close();
    expect(await takeAll(home)).toEqual(['in place']);
  });

  it('sees quiet copies like all others', async () => {
    const home = await aBroker();
    await home.mailboxes.put({ message: aMessage({ body: 'quiet' }), copies: [{ mailbox: bob, attention: QUIET }] });
    expect(listAt(inboxOf(home.root, bob))).toMatchObject([{ content: 'quiet' }]);
  });

  it('that gives no ids and says the same again and again, each time is another message', async () => {
    const home = await aBroker();
    leaveEntry(home.root, bob, said('ok'));
    leaveEntry(home.root, bob, said('ok'));
    const [first] = await home.mailboxes.ids(bob);
    const claim = await home.mailboxes.claim(bob, [first as MessageId], LEASE);
    expect(claim.copies).toHaveLength(1);
    leaveEntry(home.root, bob, said('ok'));
    expect(await home.mailboxes.settle(claim, [first as MessageId], DONE)).toBe(true);
    expect(await takeAll(home)).toEqual(['ok', 'ok']);
    leaveEntry(home.root, bob, said('ok'));
    expect(await takeAll(home)).toEqual(['ok']);
    expect(await takeAll(home)).toEqual([]);
  });

  it('that gives no ids is peeked at under the ids under which it can be taken', async () => {
    const home = await aBroker();
    for (const content of ['a', 'b', 'a']) leaveEntry(home.root, bob, said(content, { ts: 5 }));
    const seen = (await home.mailboxes.peek(bob)).map(({ message }) => message.id);
    expect(new Set(seen).size).toBe(3);
    const claim = await home.mailboxes.claim(bob, seen, LEASE);
    expect(claim.copies.map(({ message }) => message.id).toSorted()).toEqual(seen.toSorted());
  });

  it('that reuses an id for other words hides nothing, and for the same words adds nothing', async () => {
    const home = await aBroker();
    const { message } = await home.mailboxes.put(anEntry({ body: 'ours' }));
    leaveEntry(home.root, bob, { ...said('not ours'), message_id: message.id });
    leaveEntry(home.root, bob, { ...said('ours', { from_alias: 'alice' }), message_id: message.id });
    expect((await takeAll(home)).toSorted()).toEqual(['not ours', 'ours']);
    expect(listAt(inboxOf(home.root, bob))).toEqual([]);
  });

  it('that writes again what was taken long ago changes nothing, and its text is kept beside', async () => {
    const home = await aBroker();
    await home.mailboxes.put(anEntry({ body: 'once' }));
    const before = readFileSync(inboxOf(home.root, bob));
    expect(await takeAll(home)).toEqual(['once']);
    writeFileSync(inboxOf(home.root, bob), before);
    expect(await home.mailboxes.peek(bob)).toEqual([]);
    expect(await takeAll(home)).toEqual([]);
    expect(listAt(inboxOf(home.root, bob))).toEqual([]);
    const [aside] = await home.mailboxes.asides();
    expect(readFileSync(aside ?? '', 'utf8')).toContain('once');
  });

  it('that says the same again while we take it loses nothing: what is only alike is not set aside', async () => {
    const home = await aBroker();
    leaveEntry(home.root, bob, said('again'));
    await home.mailboxes.adopt(bob);
    const seen = await home.mailboxes.ids(bob);
    expect(await takeAll(home)).toEqual(['again']);
    leaveEntry(home.root, bob, said('again'));
    // Somebody who looked before comes too late.
    expect((await home.mailboxes.claim(bob, seen, LEASE)).copies).toEqual([]);
    expect(await takeAll(home)).toEqual(['again']);
  });

  it('that has in hand what ends like an id of ours keeps nothing from its place', async () => {
    const home = await aBroker();
    const message = aMessage();
    leaveEntry(home.root, bob, { ...said('longer'), message_id: `x-${message.id}` });
    await home.mailboxes.adopt(bob);
    const claim = await home.mailboxes.claim(bob, await home.mailboxes.ids(bob), LEASE);
    expect(claim.copies).toHaveLength(1);
    await home.mailboxes.put({ message, copies: copiesFor(bob) });
    expect(listAt(inboxOf(home.root, bob))).toHaveLength(1);
  });

  it('keeps every digit and every field of entries that we leave where they are', async () => {
    const home = await aBroker();
    const theirs = '{ "from_alias":"x", "to_alias":"bob",\n "content":"a", "ts":1.0, "big":12345678901234567890 }';
    writeFileSync(inboxOf(home.root, bob), `[ ${theirs} ]\n`);
    const { message } = await home.mailboxes.put(anEntry());
    expect(readFileSync(inboxOf(home.root, bob), 'utf8')).toContain(theirs);
    const claim = await home.mailboxes.claim(bob, [message.id], LEASE);
    await home.mailboxes.settle(claim, [message.id], DONE);
    expect(readFileSync(inboxOf(home.root, bob), 'utf8')).toBe(`[${theirs}]`);
  });

  it('that takes an alias for another session finds there what a reader puts back', async () => {
    const sessions = new Map([[bob, 'old']]);
    const home = await aBroker({ sessions });
    const { message } = await home.mailboxes.put(anEntry());
    const claim = await home.mailboxes.claim(bob, [message.id], LEASE);
    sessions.set(bob, 'new');
    await home.mailboxes.release(claim, [message.id], { because: 'test' });
    expect(listAt(`${home.root}/new.inbox.json`)).toHaveLength(1);
    expect(await takeAll(home)).toEqual(['hello']);
  });
});

describe('a look into an inbox', () => {
  it.each([
    ['that is in order', JSON.stringify([said('a', { ts: 1 }), said('b', { ts: 2 })]), ['a', 'b']],
    ['that is cut off', JSON.stringify([said('a'), said('b')]).slice(0, -10), ['a']],
    ['with odd blanks', ` \n[ ${JSON.stringify(said('a'))} ,\t${JSON.stringify(said('b'))}\n]\r\n`, ['a', 'b']],
  ])('%s leaves every byte of it unchanged, and its time [C2C-22]', async (_which, text, bodies) => {
    const home = await aBroker();
    const path = inboxOf(home.root, bob);
    writeFileSync(path, text);
    utimesSync(path, 1000, 1000);
    const before = statSync(path, { bigint: true });
    const files = readdirSync(home.root).toSorted();
    for (let round = 0; round < 2; round += 1) {
      expect((await home.mailboxes.peek(bob)).map(({ message }) => message.body)).toEqual(bodies);
      const ids = await home.mailboxes.ids(bob);
      expect(await home.mailboxes.read(bob, ids[0] as MessageId)).toMatchObject({ message: { body: 'a' } });
    }
    expect(readFileSync(path, 'utf8')).toBe(text);
    const { ino, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    expect([ino, mtimeNs, ctimeNs]).toEqual([before.ino, before.mtimeNs, before.ctimeNs]);
    expect(readdirSync(home.root).toSorted()).toEqual(files);
  });
});

describe('an inbox of any size', () => {
  it('10,000 messages of 1 KB are added to and drained whole, each once [C2C-5]', async () => {
    const home = await aBroker();
    const body = 'x'.repeat(1000);
    const theirs = Array.from({ length: 10_000 }, (_, n) => said(`${n} ${body}`, { ts: n + 1 }));
    writeFileSync(inboxOf(home.root, bob), JSON.stringify(theirs));
    await home.mailboxes.put(anEntry({ body: 'the last' }));
    expect(listAt(inboxOf(home.root, bob))).toHaveLength(10_001);
    const all = await takeAll(home);
    expect(all).toHaveLength(10_001);
    expect(new Set(all)).toEqual(new Set([...theirs.map(({ content }) => content), 'the last']));
    expect(listAt(inboxOf(home.root, bob))).toEqual([]);
    expect(await takeAll(home)).toEqual([]);
    expect(readArchive(home.root, 'session-of-bob')).toHaveLength(10_001);
  });

  it('one message of more than the 64 KiB at which the original gives up arrives whole [C2C-5]', async () => {
    const home = await aBroker();
    const body = 'ü'.repeat(100_000);
    await home.mailboxes.put(anEntry({ body }));
    expect(statSync(inboxOf(home.root, bob)).size).toBeGreaterThan(64 * 1024);
    expect(await takeAll(home)).toEqual([body]);
  });
});

describe('what was taken', () => {
  it('stands in the archive with who sent it and when, under its id [C2C-20]', async () => {
    const home = await aBroker({ now: () => 1_767_323_050_000 });
    const { message } = await home.mailboxes.put(anEntry({ ts: '2026-01-02T03:04:05.000Z' }));
    leaveEntry(home.root, bob, said('by a script', { ts: 7.5, deferrable: true }));
    leaveEntry(home.root, bob, said('for no archive', { ts: 8, ephemeral: true }));
    expect(await takeAll(home)).toHaveLength(3);
    const text = readFileSync(`${home.root}/archive/session-of-bob.jsonl`, 'utf8');
    const [ours, theirs, ...more] = text.trim().split('\n');
    expect(more).toEqual([]);
    expect(ours).toBe(
      `{"drained_at":1767323050.0,"drained_by":"cli_poll","session_id":"session-of-bob","from_alias":"alice",` +
        `"to_alias":"bob","content":"hello","message_id":"${message.id}","ts":1767323045.0}`,
    );
    expect(JSON.parse(theirs ?? '')).toMatchObject({ from_alias: 'script', ts: 7.5, deferrable: true });
  });

  it('that can be neither shown nor put back says what went wrong first', async () => {
    const home = await aBroker({
      onStep: (step) => {
        if (step === 'R put back') throw new Error('nor put back');
      },
    });
    await home.mailboxes.put(anEntry());
    const claim = await home.mailboxes.claim(bob, await home.mailboxes.ids(bob), LEASE);
    const ids = claim.copies.map(({ message }) => message.id);
    const show = (): void => {
      throw new Error('nobody reads');
    };
    expect(home.mailboxes.settle(claim, ids, DONE, show)).rejects.toThrow('nobody reads');
  });

  it('that cannot be archived is not shown, and waits again', async () => {
    const home = await aBroker();
    const { message } = await home.mailboxes.put(anEntry());
    mkdirSync(`${home.root}/archive/session-of-bob.jsonl`, { recursive: true });
    const claim = await home.mailboxes.claim(bob, [message.id], LEASE);
    let shown = 0;
    const settling = home.mailboxes.settle(claim, [message.id], DONE, () => (shown += 1));
    await expect(settling).rejects.toMatchObject({ code: 'storage_failed' });
    expect([shown, await home.mailboxes.ids(bob)]).toEqual([0, [message.id]]);
  });
});

describe('an inbox that somebody spoiled', () => {
  it.each([
    ['is cut off', JSON.stringify([said('a'), said('b')]).slice(0, -10), ['a']],
    ['is an object with a list in it', JSON.stringify({ messages: [said('a'), said('b')] }), ['a', 'b']],
    ['is a single entry', JSON.stringify(said('a')), ['a']],
    ['holds what are no messages', JSON.stringify([1, null, 'x', [], { content: 5 }, said('a')]), ['a']],
    ['is empty of everything but noise', 'hello\0', []],
    ['ends in what was there before', `${JSON.stringify([said('a')])}"},${JSON.stringify(said('b'))}]`, ['a', 'b']],
  ])('because it %s is read as far as can be, kept beside, and reported', async (_how, text, bodies) => {
    const home = await aBroker();
    writeFileSync(inboxOf(home.root, bob), text);
    expect((await home.mailboxes.peek(bob)).map(({ message }) => message.body)).toEqual(bodies);
    await home.mailboxes.put(anEntry({ body: 'ours' }));
    expect(JSON.parse(readFileSync(inboxOf(home.root, bob), 'utf8'))).toBeArray();
    expect(await takeAll(home)).toEqual([...bodies, 'ours']);
    const [repair, ...more] = takeRepairs(home.root);
    expect(more).toEqual([]);
    expect(repair?.file).toBe(inboxOf(home.root, bob));
    const copy = readFileSync(repair?.copy ?? '', 'utf8');
    // What are no messages is not in the way of a send, and stays until somebody takes mail.
    expect(copy.startsWith(text.slice(0, -1))).toBe(true);
    expect(takeRepairs(home.root)).toEqual([]);
  });

  it('cut off at any byte, and then added to, holds what was whole and what was added', async () => {
    const home = await aBroker();
    const text = JSON.stringify([said('a]', { n: [1] }), said('b}]', { n: { m: [] } })]);
    const first = JSON.stringify([said('a]', { n: [1] })]).length - 1;
    const wrong: number[] = [];
    for (let at = 1; at < text.length; at += 1) {
      writeFileSync(inboxOf(home.root, bob), text.slice(0, at));
      await home.mailboxes.put(anEntry({ body: 'ours' }));
      const bodies = await takeAll(home);
      if (!bodies.includes('ours') || bodies.includes('a]') !== at >= first) wrong.push(at);
    }
    expect(wrong).toEqual([]);
  });

  it.each(['link', 'pipe', 'folder'])(
    'by a %s in its place is refused in one line, and nothing is touched',
    async (odd) => {
      const home = await aBroker();
      const path = inboxOf(home.root, bob);
      const target = `${temporaryHome()}/target`;
      writeFileSync(target, 'untouched');
      if (odd === 'link') symlinkSync(target, path);
      else if (odd === 'pipe') Bun.spawnSync(['mkfifo', path]);
      else mkdirSync(path);
      const refused = { code: 'storage_failed', message: expect.stringContaining('is not a plain file') };
      await expect(home.mailboxes.put(anEntry())).rejects.toMatchObject(refused);
      await expect(home.mailboxes.peek(bob)).rejects.toMatchObject(refused);
      await expect(home.mailboxes.adopt(bob)).rejects.toMatchObject(refused);
      expect((await home.journal.history({ limit: 10 })).length).toBe(0);
      // Anyone else who is addressed gets it, and bob too once his place is in order.
      const { message } = await home.mailboxes.put(anEntry({}, { copies: copiesFor(carol, bob) }));
      expect(await home.mailboxes.ids(carol)).toEqual([message.id]);
      expect(readFileSync(target, 'utf8')).toBe('untouched');
      Bun.spawnSync(['rm', '-rf', path]);
      await home.mailboxes.heal();
      expect(await home.mailboxes.ids(bob)).toEqual([message.id]);
    },
  );

  it.each(['link', 'pipe', 'huge file'])('by a %s in its place can be removed', async (odd) => {
    const home = await aBroker();
    const path = inboxOf(home.root, bob);
    const target = `${temporaryHome()}/target`;
    writeFileSync(target, 'untouched');
    if (odd === 'link') symlinkSync(target, path);
    else if (odd === 'pipe') Bun.spawnSync(['mkfifo', path]);
    else {
      writeFileSync(path, '');
      truncateSync(path, LARGEST_LIST_BYTES + 1);
    }
    await home.mailboxes.remove(bob);
    expect(lstatSync(path, { throwIfNoEntry: false })).toBeUndefined();
    expect(readFileSync(target, 'utf8')).toBe('untouched');
  });

  it.each(['../evil', '..', '.hidden', 'a/b', 'a\0b', '', ' ', 'x'.repeat(200), 'a\nb'])(
    'by a session called %j is refused, and nothing is made outside',
    async (name) => {
      const home = await aBroker({ sessions: new Map([[bob, name]]) });
      await expect(home.mailboxes.put(anEntry())).rejects.toMatchObject({ code: 'invalid_request' });
      await expect(home.mailboxes.peek(bob)).rejects.toMatchObject({ code: 'invalid_request' });
      expect(existsSync(`${home.root}/../evil.inbox.json`)).toBe(false);
    },
  );

  it('names mailboxes of sessions that are in no registry, and finds their mail after a lost ledger', async () => {
    const root = temporaryHome();
    writeFileSync(`${root}/stranger.inbox.json`, JSON.stringify([said('hello')]));
    const home = await openBrokerHome(root);
    opened.push(home);
    const stranger = 'stranger' as AgentName;
    expect((await home.journal.open(stranger)).size).toBe(1);
    expect(await takeAll(home, stranger)).toEqual(['hello']);
  });
});
