import { describe, expect, it } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { Program } from '../support/program.ts';

interface Agent {
  name: string;
  kind: string;
  owner: boolean;
  roles: string[];
}
interface Copy {
  mailbox: string;
  attention: { directedness: string; policy: string; injection: string; reason: string };
}
interface Sent {
  id: string;
  copies: Copy[];
}

async function owners(parley: Program): Promise<string[]> {
  return (await parley.json<Agent[]>(['agents'])).filter(({ owner }) => owner).map(({ name }) => name);
}

/** Two people and two agents; ada is the owner and the default. */
async function aTeam(): Promise<Program> {
  const parley = new Program();
  await parley.byPerson(['init', 'ada', '--human', '--owner']);
  await parley.byPerson(['init', 'ben', '--human']);
  return parley.init('codex', 'claude');
}

describe('people and the owner', () => {
  it('are mailboxes of their own kind, and one person is the owner', async () => {
    const parley = await aTeam();
    const agents = await parley.json<Agent[]>(['agents']);
    expect(agents.map(({ name, kind, owner }) => [name, kind, owner])).toEqual([
      ['ada', 'human', true],
      ['ben', 'human', false],
      ['claude', 'agent', false],
      ['codex', 'agent', false],
    ]);
    expect((await parley.run(['agents'])).out).toMatch(/^@ada \(a person, the owner\)/);
    expect((await parley.run(['whoami'])).out).toContain('a person, the owner');
  });

  it('of a surface are spoken for by it alone: nobody makes a mailbox under the name of its platform', async () => {
    const parley = await aTeam();
    await parley.run(['init', 'slack._surface']);
    const refused = await parley.run(['init', 'slack.U1']);
    expect(refused).toMatchObject({ code: 73, out: '' });
    expect(refused.err).toContain('names that begin with "slack." belong to a surface');
    expect((await parley.run(['init', 'slacker.U1'])).code).toBe(0);
  });

  it('are missed by doctor where there is no owner, and only there', async () => {
    const parley = await new Program().init('codex');
    const missing = await parley.run(['doctor']);
    expect(missing.out).toMatch(/warn +owner +there is no owner/);
    expect(missing.out).toContain('parley init <your name> --human --owner');
    await parley.byPerson(['init', 'ada', '--human', '--owner']);
    expect((await parley.run(['doctor'])).out).toMatch(/ok +owner +@ada is the owner/);
  });

  it('change the owner only if the one before is named, and that one is told', async () => {
    const parley = await aTeam();
    const refused = await parley.byPerson(['init', 'ben', '--human', '--owner']);
    expect(refused).toMatchObject({ code: 73, out: '' });
    expect(refused.err).toBe('parley: @ada is the owner; to replace it: --instead-of ada\n');
    const wrong = await parley.byPerson(['init', 'ben', '--human', '--owner', '--instead-of', 'codex']);
    expect(wrong.err).toBe('parley: @codex is not the owner; @ada is\n');
    expect(await owners(parley)).toEqual(['ada']);
    expect((await parley.byPerson(['init', 'ben', '--human', '--owner', '--instead-of', 'ada'])).code).toBe(0);
    expect(await owners(parley)).toEqual(['ben']);
    const [told] = await parley.json<{ body: string }[]>(['inbox'], { as: 'ada' });
    expect(told?.body).toContain('@ben is the owner now, in your place');
  });

  it('leave exactly one owner, however many ask at once', async () => {
    const parley = new Program();
    const claims = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => parley.byPerson(['init', name, '--human', '--owner']));
    const codes = (await Promise.all(claims)).map(({ code }) => code);
    const [owner = ''] = await owners(parley);
    expect(await owners(parley)).toHaveLength(1);
    expect(codes.filter((code) => code === 0)).toHaveLength(1);
    const heirs = ['a', 'b', 'c', 'd', 'e', 'f'].filter((name) => name !== owner);
    await Promise.all(
      heirs.map((name) => parley.byPerson(['init', name, '--human', '--owner', '--instead-of', owner])),
    );
    expect(await owners(parley)).toHaveLength(1);
    expect(await owners(parley)).not.toContain(owner);
  });

  it('stay what they are: an agent becomes neither a person nor the owner', async () => {
    const parley = await aTeam();
    const person = await parley.byPerson(['init', 'codex', '--human']);
    expect(person.err).toContain('@codex is the mailbox of an agent');
    const owner = await parley.run(['init', 'codex', '--owner', '--instead-of', 'ada']);
    expect(owner.err).toContain('only a person can be the owner');
    expect((await parley.byPerson(['init', 'eve', '--owner'])).err).toContain('parley init eve --human --owner');
    const agents = await parley.json<Agent[]>(['agents']);
    expect(agents.find(({ name }) => name === 'codex')).toMatchObject({ kind: 'agent', owner: false });
    expect(agents.map(({ name }) => name)).not.toContain('eve');
  });

  it('are told of two owners, which only a hand can make', async () => {
    const parley = await aTeam();
    const path = `${parley.home}/.parley/agents/ben.json`;
    const record = JSON.parse(readFileSync(path, 'utf8')) as { parley: object };
    writeFileSync(path, JSON.stringify({ ...record, parley: { ...record.parley, owner: true } }));
    const doctor = await parley.run(['doctor']);
    expect(doctor.code).toBe(1);
    expect(doctor.out).toContain('@ada, @ben are all marked as owner');
  });

  it('cannot take the name under which Parley itself writes', async () => {
    expect((await new Program().run(['init', 'parley-host'])).err).toContain('pick another name');
  });
});

describe('roles', () => {
  it('are given and taken away, and mail to them arrives', async () => {
    const parley = await aTeam();
    const given = await parley.run(['role', 'add', '@codex', 'reviewer']);
    expect(given.out).toBe('@codex now has the role @reviewer\n');
    expect((await parley.run(['role', 'add', '@codex', 'reviewer'])).out).toContain('already');
    const sent = await parley.json<Sent>(['send', '@reviewer', 'please look at src/api.ts']);
    expect(sent.copies.map(({ mailbox }) => mailbox)).toEqual(['codex']);
    expect(sent.copies[0]?.attention.directedness).toBe('to_my_role');
    expect(await parley.json<object>(['role'])).toEqual([{ role: 'reviewer', home: 'parley', members: ['codex'] }]);
    await parley.run(['role', 'remove', '@codex', 'reviewer']);
    expect((await parley.run(['send', '@reviewer', 'again'])).err).toContain('no agent or role is called @reviewer');
    expect((await parley.run(['role'])).out).toContain('there are no roles');
  });

  it('share no name with an agent, anyone who came first', async () => {
    const parley = await aTeam();
    for (const name of ['claude', 'Claude']) {
      const taken = await parley.run(['role', 'add', '@codex', name]);
      expect(taken).toMatchObject({ code: 73, out: '' });
      expect(taken.err).toBe('parley: @claude is an agent; a name is an agent or a role, never both\n');
    }
    await parley.run(['role', 'add', '@codex', 'reviewer']);
    expect((await parley.run(['role', 'add', '@claude', 'REVIEWER'])).err).toContain('there is a role @reviewer');
    expect((await parley.run(['init', 'reviewer'])).err).toContain('is a role of codex');
  });

  it('are refused in one line if the words are wrong', async () => {
    const parley = await aTeam();
    expect((await parley.run(['role', 'give', '@codex', 'x'])).err).toBe(
      'parley: usage: parley role add|remove @agent <role>\n',
    );
    expect((await parley.run(['role', 'add', '@codx', 'x'])).err).toBe(
      'parley: no agent is called codx; did you mean codex?\n',
    );
    expect((await parley.run(['role', 'add', '@codex', 'a b'])).err).toMatch(/^parley: invalid agent name "a b" .*\n$/);
  });
});

describe('what an agent owns', () => {
  it('is one agent’s, until it gives it up', async () => {
    const parley = await aTeam();
    expect((await parley.run(['own', '#deploy'], { as: 'codex' })).out).toBe("#deploy is @codex's now\n");
    const other = await parley.run(['own', '#deploy'], { as: 'claude' });
    expect(other.err).toContain('@codex owns #deploy');
    expect(await parley.json<object>(['own'], { as: 'codex' })).toEqual({ agent: 'codex', owns: ['#deploy'] });
    await parley.run(['own', '#deploy', '--release'], { as: 'codex' });
    expect((await parley.run(['own', '#deploy'], { as: 'claude' })).code).toBe(0);
    expect((await parley.run(['own'], { as: 'codex' })).out).toContain('owns nothing');
  });

  it('can be an exchange, which is known by its first message', async () => {
    const parley = await aTeam();
    const { id } = await parley.json<Sent>(['send', '@codex', 'is it done?', '--intent', 'question']);
    const reply = await parley.json<Sent>(['reply', id, 'nearly, 3 tests are red'], { as: 'codex' });
    expect(await parley.json<object>(['own', reply.id.slice(0, 8)], { as: 'codex' })).toMatchObject({ owns: [id] });
    expect((await parley.run(['own', id], { as: 'claude' })).err).toContain('neither from you nor to you');
  });

  it('is to its owner what its role is: a channel that somebody owns knocks there and nowhere else [C2A-53]', async () => {
    const parley = await aTeam();
    for (const name of ['codex', 'claude']) await parley.run(['sub', '#deploy'], { as: name });
    const before = await parley.json<Sent>(['send', '#deploy', 'the pipeline is green']);
    expect(before.copies.map(({ attention }) => attention.directedness)).toEqual(['ambient', 'ambient']);
    await parley.run(['own', '#deploy'], { as: 'codex' });
    const after = await parley.json<Sent>(['send', '#deploy', 'the pipeline is red']);
    expect(
      after.copies.map(({ mailbox, attention }) => [mailbox, attention.directedness, attention.injection]),
    ).toEqual([
      ['claude', 'ambient', 'tool_mailbox'],
      ['codex', 'to_my_role', 'notify'],
    ]);
  });
});

describe('quiet', () => {
  it('is set, shown and ended', async () => {
    const parley = await new Program().init('codex');
    expect((await parley.run(['quiet'])).out).toBe('not quiet: mail is shown as usual\n');
    expect((await parley.run(['quiet', 'on'])).out).toContain('parley quiet off');
    expect(await parley.json<object>(['quiet'])).toEqual({ agent: 'codex', quiet: { on: true }, now: true });
    const until = await parley.json<{ quiet: { until: string }; now: boolean }>(['quiet', 'until', '2h']);
    expect(until.now).toBe(true);
    expect(Date.parse(until.quiet.until) - Date.now()).toBeGreaterThan(7_100_000);
    expect(await parley.json<object>(['quiet', 'hours', '22:00-07:00'])).toMatchObject({
      quiet: { hours: '22:00-07:00' },
    });
    expect(await parley.json<object>(['quiet', 'off'])).toEqual({ agent: 'codex', quiet: null, now: false });
  });

  it.each([
    [['until', 'soon'], '"soon" is not a time; write 30m, 2h, 07:30 or an ISO time'],
    [['until', '2020-01-01T00:00:00Z'], '"2020-01-01T00:00:00Z" is in the past; give a later time'],
    [['hours', '25:00-07:00'], '"25:00-07:00" is not a range of hours; write two different times such as 22:00-07:00'],
    [['hours', '07:00-07:00'], '"07:00-07:00" is not a range of hours; write two different times such as 22:00-07:00'],
    [['later'], 'usage: parley quiet on | off | until <time> | hours <22:00-07:00>'],
    [['until'], 'usage: parley quiet on | off | until <time> | hours <22:00-07:00>'],
  ])('refuses %j in one line, and changes nothing', async (words, why) => {
    const parley = await new Program().init('codex');
    await parley.run(['quiet', 'on']);
    const refused = await parley.run(['quiet', ...words]);
    expect(refused).toEqual({ code: 64, out: '', err: `parley: ${why}\n` });
    expect(await parley.json<object>(['quiet'])).toMatchObject({ quiet: { on: true } });
  });

  it('lets mail wait where nothing disturbs, but for what a person sends as urgent', async () => {
    const parley = await aTeam();
    await parley.run(['quiet', 'on'], { as: 'codex' });
    const how = async (as: string, ...more: string[]): Promise<string | undefined> =>
      (await parley.json<Sent>(['send', '@codex', 'is it done?', ...more], { as })).copies[0]?.attention.injection;
    expect(await how('ada')).toBe('tool_mailbox');
    expect(await how('ada', '--intent', 'fyi')).toBe('digest');
    expect(await how('claude', '--urgent')).toBe('tool_mailbox');
    expect((await parley.json<{ count: number }>(['owe'], { as: 'codex' })).count).toBe(2);
    expect(await how('ada', '--urgent')).toBe('immediate');
    await parley.run(['quiet', 'off'], { as: 'codex' });
    expect(await how('ada')).toBe('buffered');
  });
});
