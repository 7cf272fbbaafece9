// Our client at a relay of the original itself, and the original at ours, when things go wrong on the way.
import { afterEach, describe, expect } from 'bun:test';
import { opens } from '../clients/support/opened.ts';
import { parleyAtARelay, parleyWithoutKeys } from '../scenarios/remote-parley.contract.ts';
import { until } from '../support/bch.ts';
import { Caller } from '../support/caller.ts';
import { RemoteMachine } from '../support/remote.ts';
import { endAll, PeerMachine, peers } from './support/peer.ts';

const { story, why } = peers('original');
const HERE = ['--token', 'room'];
afterEach(endAll);

/** A machine whose agent ann is at a relay of the original. */
async function remote(dialect: 'bch' | 'parley'): Promise<RemoteMachine> {
  return opens(await RemoteMachine.at(await new PeerMachine().relay('original', HERE), dialect));
}

parleyAtARelay(`parley at a relay of the original itself${why}`, () => remote('parley'), story);
parleyWithoutKeys(`parley at a relay of the original itself, which knows no keys${why}`, () => remote('parley'), story);

describe(`our client at a relay of the original itself${why}`, () => {
  story('listens to a stream that says nothing for 25 seconds, not even its headers [BC-B6.3]', async () => {
    await Promise.all(
      (['bch', 'parley'] as const).map(async (dialect) => {
        const machine = await remote(dialect);
        const watch = machine.start(dialect, ['watch', '--peek']);
        opens({ close: async () => void (await watch.stop('SIGKILL')) });
        await until('its first sign of life', () => machine.wire.heard.some((text) => text.includes(': keepalive')));
        await machine.peer.send('@ann', 'at last');
        await watch.says('at last');
        expect(machine.wire.asked.filter((line) => line.includes('/v1/events/'))).toHaveLength(1);
        expect(watch.err).not.toContain('tried again');
      }),
    );
  });

  story('does not send a message twice whose answer was lost, and says that nobody can tell [BC-10]', async () => {
    const machine = await remote('bch');
    machine.wire.fault = { at: /\/v1\/send/, kind: 'answer lost' };
    expect(await machine.error(['send', '@bob', 'once'])).toMatch(/nobody can tell whether the message was sent/);
    machine.wire.fault = null;
    await machine.said(['inbox']);
    expect(await machine.peer.bodies()).toEqual(['once']);
  });

  story('loses no message whose take was not answered, and shows it once', async () => {
    const machine = await remote('bch');
    await machine.peer.send('@ann', 'precious');
    machine.wire.fault = { at: /\/v1\/take/, kind: 'answer lost' };
    expect(await machine.said(['drain'])).toContain('precious');
    machine.wire.fault = null;
    expect(await machine.said(['drain'])).toBe('inbox empty\n');
  });

  story(
    'goes on watching after the relay was killed and started again, and tells each message once [BC-B6.2]',
    async () => {
      const host = new PeerMachine();
      const place = await host.relay('original', HERE);
      const machine = opens(await RemoteMachine.at(place, 'bch'));
      const watch = machine.start('bch', ['watch', '--peek']);
      opens({ close: async () => void (await watch.stop('SIGKILL')) });
      await machine.peer.send('@ann', 'before');
      await watch.says('before');
      await place.running.stop('SIGKILL');
      Object.assign(place, await host.relay('original', HERE));
      await new Caller(place.url, machine.peer.token, 'bob').send('@ann', 'afterwards');
      await watch.says('afterwards');
      expect(watch.out.match(/before|afterwards/g)).toEqual(['before', 'afterwards']);
    },
  );

  story(
    'takes turns with the original under one name and one token: each message comes to one of them [BC-6]',
    async () => {
      const { url } = await new PeerMachine().relay('original', HERE);
      const machine = new PeerMachine();
      await machine.told('original', ['init', 'ann', '--url', url, ...HERE]);
      expect(await machine.told('ours', ['init', 'ann'])).toBe(`registered as "ann" (${url})\n`);
      expect(await machine.told('original', ['init', 'ann'])).toBe(`registered as "ann" (${url})\n`);
      await shareThirty(machine, await Caller.register(url, 'bob', 'room'));
    },
  );
});

describe(`a machine with both programs, at a relay${why}`, () => {
  story('is set up by either for both, with the token of the agent that was made last [BC-B3.9, BC-C11]', async () => {
    const { url } = await new PeerMachine().relay('original', HERE);
    const machine = new PeerMachine();
    const bob = await Caller.register(url, 'bob', 'room');
    for (const [n, brand] of (['original', 'ours', 'original', 'ours'] as const).entries()) {
      const name = `agent-${n}`;
      await machine.told(brand, ['init', name, '--url', url, ...HERE]);
      for (const reader of ['ours', 'original'] as const) {
        await bob.send(`@${name}`, 'hello');
        expect(await machine.told(reader, ['whoami'])).toBe(`${name} via ${url}\n`);
        expect(await machine.told(reader, ['drain'])).toMatch(new RegExp(`^bob -> @${name} .*\nhello\n$`));
      }
    }
    // Ours keeps the token of everybody whom it has seen here; the original knows the last one only.
    await bob.send('@agent-1', 'for an earlier one');
    expect(await machine.told('ours', ['drain'], { as: 'agent-1' })).toContain('for an earlier one');
  });
});

describe(`the original at our relay${why}`, () => {
  story('goes on watching after the relay was killed and started again [BC-8, BC-B5.24]', async () => {
    const [host, machine] = [new PeerMachine(), new PeerMachine()];
    const { url, running } = await host.relay('ours', HERE);
    await machine.told('original', ['init', 'ann', '--url', url, ...HERE]);
    const bob = await Caller.register(url, 'bob', 'room');
    const watch = machine.begin('original', ['watch', '--peek']);
    await bob.send('@ann', 'before');
    await watch.says('before');
    await running.stop('SIGKILL');
    await host.relay('ours', HERE, { port: Number(new URL(url).port) });
    await bob.send('@ann', 'afterwards');
    await watch.says('afterwards');
    expect(await machine.told('original', ['drain'])).toMatch(/before[^]*afterwards/);
  });

  story('gets each message to one of many sessions, of its own and of ours [BC-6]', async () => {
    const { url } = await new PeerMachine().relay('ours', HERE);
    const machine = new PeerMachine();
    await machine.told('ours', ['init', 'ann', '--url', url, ...HERE]);
    expect(await machine.told('original', ['init', 'ann'])).toBe(`registered as "ann" (${url})\n`);
    await shareThirty(machine, await Caller.register(url, 'bob', 'room'));
  });

  story('cannot take a name by the room token that somebody has on the host itself [BC-B3.6, BC-C16]', async () => {
    const [host, machine] = [new PeerMachine(), new PeerMachine()];
    await host.told('original', ['init', 'ann']);
    const { url } = await host.relay('ours', HERE);
    expect(await machine.run('original', ['init', 'ann', '--url', url, ...HERE])).toEqual({
      out: '',
      err: 'error: agent name "ann" is registered — present its token to re-register\n',
      code: 1,
    });
  });
});

/** Bob writes 30 messages to ann; four sessions of hers, two of each program, take them at once. Each comes to one of them. */
async function shareThirty(ann: PeerMachine, bob: Caller): Promise<void> {
  const sent = await Promise.all(Array.from({ length: 30 }, async (_, n) => (await bob.send('@ann', `m${n}`)).id));
  const sessions = (['original', 'ours', 'original', 'ours'] as const).map((brand) =>
    ann.told(brand, ['drain', '--json']),
  );
  const taken = (await Promise.all(sessions)).flatMap((out) => JSON.parse(out) as { id: string }[]);
  expect(taken.map(({ id }) => id).toSorted()).toEqual(sent.toSorted());
}
