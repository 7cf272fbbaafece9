import { describe, expect, it } from 'bun:test';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { work } from '../../src/core/mail/watch.ts';
import type { Message } from '../../src/core/message.ts';
import { Machine, until } from '../support/bch.ts';
import { aDurableWorkspace } from '../support/durable-workspace.ts';
import { temporaryHome } from '../support/home.ts';
import { anEntry, bob } from '../support/mail.ts';
import type { Program } from '../support/program.ts';
import { PARLEY } from '../support/program.ts';

describe('bch watch', () => {
  it('prints in brief what waited and what comes, takes it, and says so on stderr [BC-B7.30, BC-B7.35]', async () => {
    const machine = new Machine().agent('bob');
    machine.leave('bob', { id: 'aaaaaaaa-1', ts: '2026-03-04T05:06:07.089Z', body: 'one\n two', priority: 'urgent' });
    const watch = machine.start('bch', ['watch'], { as: 'bob' });
    await watch.says('one');
    machine.leave('bob', { id: 'bbbbbbbb-2', ts: '2026-03-04T05:06:08.089Z', body: 'three' });
    await watch.says('three');
    expect(await watch.stop()).toEqual({
      out:
        'script -> @bob [URGENT] (2026-03-04T05:06:07.089Z, id aaaaaaaa): one two\n' +
        'script -> @bob (2026-03-04T05:06:08.089Z, id bbbbbbbb): three\n',
      err: 'watching inbox for bob (ctrl-c to stop)\n',
      code: 0,
    });
    expect(machine.files('bob', 'new')).toEqual([]);
  });

  it('takes urgent mail, mail that matches, or what is not scoped, and leaves the rest [BC-3, BC-4, BC-B4.9, BC-B7.10]', async () => {
    const machine = new Machine().agent('bob');
    const urgent = machine.start('bch', ['watch', '--urgent-only', '--match', 'org/repo'], { as: 'bob' });
    machine.leave('bob', { body: 'not urgent' });
    machine.leave('bob', { body: 'urgent elsewhere', priority: 'urgent', scope: 'other' });
    machine.leave('bob', { body: 'urgent here', priority: 'urgent', scope: 'repo' });
    machine.leave('bob', { body: 'urgent anywhere', priority: 'urgent' });
    await urgent.says('urgent anywhere');
    const { out } = await urgent.stop('SIGINT');
    expect(bodies(out)).toEqual(['urgent here', 'urgent anywhere']);
    const plain = machine.start('bch', ['watch'], { as: 'bob' });
    await plain.says('not urgent');
    machine.leave('bob', { body: 'the last' });
    await plain.says('the last');
    expect(bodies((await plain.stop()).out)).toEqual(['not urgent', 'the last']);
    expect(JSON.parse(machine.onlyFile('bob'))).toMatchObject({ body: 'urgent elsewhere' });
  });

  it('with --peek shows all, scoped mail too, once each, and leaves it [BC-B4.10, BC-B7.10, BC-B7.30]', async () => {
    const machine = new Machine().agent('bob');
    const ids = [machine.leave('bob', { body: 'one' }), machine.leave('bob', { body: 'two', scope: 'elsewhere' })];
    const watch = machine.start('bch', ['watch', '--peek'], { as: 'bob' });
    await watch.says('two');
    // The folder changes, and another reader takes one and gives it back: none of that is news.
    const folder = `${machine.root}/spool/bob/new`;
    for (let round = 0; round < 20; round += 1) {
      utimesSync(folder, new Date(), new Date());
      writeFileSync(`${folder}/.touched`, String(round));
    }
    const { program } = machine;
    await program.run(['take', ids[0] ?? '', '--lease', '10m'], { as: 'bob' });
    await program.run(['release', ids[0] ?? ''], { as: 'bob' });
    expect(machine.files('bob', 'new')).toContain(`${ids[0]}.json`);
    machine.leave('bob', { body: 'three' });
    await watch.says('three');
    const { out, err } = await watch.stop();
    expect(bodies(out)).toEqual(['one', 'two', 'three']);
    expect(err).toBe('watching inbox for bob (peek: messages stay queued) (ctrl-c to stop)\n');
    expect(machine.files('bob', 'new').filter((name) => name.endsWith('.json'))).toHaveLength(3);
  });

  it('is neither stopped by a message without a body nor loses it [BC-C8]', async () => {
    const machine = new Machine().agent('bob');
    machine.leave('bob', { id: 'aaaaaaaa-1', body: undefined });
    machine.leave('bob', { id: 'bbbbbbbb-2', body: null });
    machine.leave('bob', { body: 'after them' });
    const watch = machine.start('bch', ['watch'], { as: 'bob' });
    await watch.says('after them');
    const { out, code } = await watch.stop();
    expect(code).toBe(0);
    expect(out).toMatch(/id aaaaaaaa\): \n.*id bbbbbbbb\): \n.*after them\n$/);
  });

  it('ends when its reader goes away, and what could not be printed waits', async () => {
    const machine = new Machine().agent('bob');
    const script = `((exec -a bch "${PARLEY}" watch); echo "ended with $?" >&2) | head -n 1`;
    machine.leave('bob', { body: 'one' });
    const pipeline = Bun.spawn(['bash', '-c', script], {
      env: machine.env({ as: 'bob' }),
      stdout: 'pipe',
      stderr: 'pipe',
    });
    const { value: line } = await pipeline.stdout.getReader().read();
    expect(new TextDecoder().decode(line)).toContain('one');
    const id = machine.leave('bob', { body: 'two' });
    await pipeline.exited;
    expect(await new Response(pipeline.stderr).text()).toBe(
      'watching inbox for bob (ctrl-c to stop)\nended with 141\n',
    );
    expect(machine.files('bob', 'new')).toEqual([`${id}.json`]);
    expect(await machine.said(['drain'], { as: 'bob' })).toContain('two');
  });

  it('holds up nobody else while its own reader is slow', async () => {
    const machine = new Machine().agent('bob').agent('eve');
    for (let count = 0; count < 40; count += 1) machine.leave('bob', { body: 'x'.repeat(5000) });
    const stuck = machine.stuck('parley', ['watch', '--take', '--json', '--as', 'bob']);
    await machine.takesNoMore('bob');
    const waiting = machine.files('bob', 'new').length;
    expect(waiting).toBeGreaterThan(0);
    await machine.said(['send', '@eve', 'in the meantime'], { as: 'ann' });
    expect(machine.files('bob', 'new')).toHaveLength(waiting);
    stuck.leave();
    await stuck.child.exited;
    expect(machine.files('bob', 'new')).toHaveLength(waiting + 1);
  });
});

describe('watch --exec', () => {
  it('hands the message over as variables and as JSON on stdin, and settles it after exit 0 [BC-18, BC-B7.43]', async () => {
    const machine = new Machine().agent('bob');
    const seen = `${machine.program.home}/seen`;
    mkdirSync(seen);
    const fields = 'ID FROM TO PRIORITY SCOPE THREAD TS BODY';
    const command = `for f in ${fields}; do printenv "BCH_$f" > ${seen}/$f; done; cat > ${seen}/stdin; ls spool/bob/new > ${seen}/new`;
    const body = 'line one\n  "two" \\ $HOME `x` ü€😀';
    const id = machine.leave('bob', { body, scope: 'org/repo', thread: 't 1', priority: 'urgent', extra: { a: 1 } });
    const message = JSON.parse(machine.onlyFile('bob')) as Message;
    const watch = machine.start('bch', ['watch', '--match', 'org/repo', '--exec', `cd ${machine.root} && ${command}`], {
      as: 'bob',
    });
    await watch.says('line one');
    await until('the end of it', () => existsSync(`${seen}/new`) && machine.files('bob', 'held').length === 0);
    await watch.stop();
    const saw = (name: string): string => readFileSync(`${seen}/${name}`, 'utf8').replace(/\n$/, '');
    expect(fields.split(' ').map(saw)).toEqual([id, 'script', '@bob', 'urgent', 'org/repo', 't 1', message.ts, body]);
    // Fields that nobody knows are left out.
    expect(JSON.parse(saw('stdin'))).toEqual({ ...message, extra: undefined });
    expect(saw('new')).toBe('');
    expect(machine.files('bob', 'new')).toEqual([]);
  });

  const HOSTILE = [
    '$(touch x)',
    '`touch x`',
    '"; touch x; "',
    "'; touch x; '",
    '\n touch x\n',
    '&& touch x',
    '${IFS}; touch x',
    '-n x',
  ];
  const QUOTED: [how: string, template: string][] = [
    ['bare [BC-C2, BC-18]', 'printf %s {{body}} {{from}}'],
    ['in double quotes [BC-C2, BC-18]', 'printf %s "{{body}} {{from}}"'],
    ['in single quotes [BC-C2, BC-18]', "printf %s '{{body}} {{from}}'"],
    ['in a substitution [BC-C2]', 'printf %s "$(printf %s {{body}}) `printf %s {{from}}`"'],
    ['in a here-document [BC-C2]', 'cat <<EOF\n{{body}} {{from}}\nEOF'],
    ['in an inner shell in single quotes [BC-C2]', 'sh -c \'printf %s "{{body}} {{from}}"\''],
  ];
  it.each(QUOTED)('never runs what a message says, with the placeholder %s', async (_how, template) => {
    const machine = new Machine().agent('bob');
    const folder = temporaryHome();
    for (const text of HOSTILE) machine.leave('bob', { body: text, from: text });
    const command = `cd ${folder} || exit; ${template}\ntouch done-$BCH_ID`;
    const watch = machine.start('bch', ['watch', '--exec', command], { as: 'bob' });
    const done = (): string[] => readdirSync(folder).filter((name) => name.startsWith('done-'));
    await until(`all of them (${watch.err})`, () => done().length === HOSTILE.length);
    await watch.stop();
    expect(readdirSync(folder)).toEqual(done());
    expect(machine.files('bob', 'new')).toEqual([]);
  });

  it('knows its placeholders as references [BC-B7.10, BC-B7.42]', async () => {
    const machine = new Machine().agent('bob');
    const odd = { body: 'a  b $HOME', from: '$HOME f', to: '$HOME t', priority: '$HOME p' };
    const id = machine.leave('bob', odd);
    const watch = machine.start(
      'bch',
      ['watch', '--exec', `printf '<%s>' "{{body}}" "{{from}}" "{{to}}" "{{id}}" "{{priority}}" "{{other}}"`],
      { as: 'bob' },
    );
    await watch.says(`<a  b $HOME><$HOME f><$HOME t><${id}><$HOME p><{{other}}>`);
    await watch.stop();
  });

  const AS_COMMAND = [
    '{{body}}',
    '  "{{body}}" x',
    'true; {{body}}',
    'cd /tmp && {{from}}',
    'x | {{body}}',
    '({{body}})',
  ];
  it('refuses a template that would run the message itself [BC-C2]', async () => {
    const machine = new Machine().agent('bob');
    machine.leave('bob', { body: 'touch x' });
    const said = await Promise.all(AS_COMMAND.map((exec) => machine.bch(['watch', '--exec', exec], { as: 'bob' })));
    for (const { err, code } of said) {
      expect(err).toMatch(/^error: --exec would run what the message says as a command; [^\n]*\n$/);
      expect(code).toBe(1);
    }
    expect(existsSync(`${machine.program.home}/x`)).toBe(false);
    expect(machine.files('bob', 'new')).toHaveLength(1);
  });

  it('lets a command at work finish when it is told to stop, and takes nothing more', async () => {
    const machine = new Machine().agent('bob');
    const { home } = machine.program;
    machine.leave('bob', { body: 'one' });
    const left = machine.leave('bob', { body: 'two' });
    const watch = machine.start(
      'bch',
      ['watch', '--exec', `touch ${home}/began; while test -e ${home}/began; do sleep 0.01; done`],
      { as: 'bob' },
    );
    await until('its begin', () => existsSync(`${home}/began`));
    watch.child.kill('SIGTERM');
    Bun.spawnSync(['rm', `${home}/began`]);
    await watch.ended();
    expect(watch.run().code).toBe(0);
    expect(bodies(watch.out)).toEqual(['one']);
    expect(machine.files('bob', 'new')).toEqual([`${left}.json`]);
    expect(machine.files('bob', 'held')).toEqual([]);
  });

  it('ends a command that does not finish, with its children, and gives the message back', async () => {
    const machine = new Machine().agent('bob');
    const { home } = machine.program;
    const id = machine.leave('bob');
    const watch = machine.start('bch', ['watch', '--exec', `sleep 300 & echo $! > ${home}/child; wait`], { as: 'bob' });
    await until('its begin', () => existsSync(`${home}/child`) && statSync(`${home}/child`).size > 0);
    watch.child.kill('SIGINT');
    await watch.complains('stopping when the command has ended; once more ends it now');
    expect((await watch.stop('SIGINT')).code).toBe(0);
    expect(machine.files('bob', 'new')).toEqual([`${id}.json`]);
    await until('the end of the child', () => !isRunning(readFileSync(`${home}/child`, 'utf8')));
    await watch.child.exited;
  });

  it('when killed, leaves no command behind, and the message goes to the next', async () => {
    const machine = new Machine().agent('bob');
    const { home } = machine.program;
    machine.leave('bob', { body: 'again' });
    const exec = `sleep 300 & echo $! > ${home}/child; wait`;
    const watch = machine.start('bch', ['watch', '--exec', exec], { as: 'bob' });
    await until('its begin', () => existsSync(`${home}/child`) && statSync(`${home}/child`).size > 0);
    watch.child.kill('SIGKILL');
    await until('the end of the child', () => !isRunning(readFileSync(`${home}/child`, 'utf8')));
    await watch.child.exited;
    expect(await machine.said(['drain'], { as: 'bob' })).toContain('again');
  });

  it('copes with a body that is too large for a variable, or holds a NUL', async () => {
    const machine = new Machine().agent('bob');
    machine.leave('bob', { body: 'ü'.repeat(100_000) });
    machine.leave('bob', { body: 'a\0b' });
    const exec = `echo "$(cat | wc -c) $(printf %s "$BCH_BODY" | wc -c) [$BCH_BODY_CUT]"`;
    const watch = machine.start('bch', ['watch', '--exec', exec], { as: 'bob' });
    await watch.says('[]');
    await watch.stop();
    const told = watch.out.split('\n').filter((line) => /^\d/.test(line));
    expect(told[0]).toMatch(/^2\d{5} 100000 \[1\]$/);
    expect(told[1]).toMatch(/^\d+ 5 \[\]$/);
    expect(machine.files('bob', 'new')).toEqual([]);
  });
});

describe('a message that is being worked on', () => {
  it('stays with its worker, however long that takes, and goes to nobody else', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const entry = anEntry();
    await workspace.own.mailboxes.put(entry);
    const { id } = entry.message;
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const { promise: finished, resolve: finish } = Promise.withResolvers<void>();
    const who = { name: bob, home: workspace.own };
    const lease = { ms: 300, renewMs: 50 };
    const working = work(
      { who },
      id,
      async () => {
        begin();
        await finished;
        return { done: true, evidence: { by: 'test' } };
      },
      lease,
    );
    // Before that it is anybody's.
    await begun;
    for (const end = Date.now() + 4 * lease.ms; Date.now() < end; await Bun.sleep(20)) {
      await workspace.own.mailboxes.heal();
      expect((await workspace.own.mailboxes.claim(bob, [id], { ms: 1000 })).copies).toEqual([]);
    }
    finish();
    expect(await working).toEqual({ done: true, againMs: null });
    expect((await workspace.own.journal.copy(bob, id))?.state).toBe('settled');
  });

  it('is told when it was lost, and is not settled then', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const entry = anEntry();
    await workspace.own.mailboxes.put(entry);
    const { id } = entry.message;
    const who = { name: bob, home: workspace.own };
    const { promise: lost, resolve: hear } = Promise.withResolvers<void>();
    const worked = await work(
      { who },
      id,
      async (_copy, signal) => {
        signal.addEventListener('abort', () => hear());
        // As in another container after a sleep of the machine: somebody took it for abandoned.
        const owner = (await workspace.own.journal.copy(bob, id))?.owner ?? '';
        await workspace.own.mailboxes.release({ mailbox: bob, owner }, [id], { because: 'test' });
        await lost;
        return { done: true, evidence: { by: 'test' } };
      },
      { ms: 10, renewMs: 60 },
    );
    expect(worked.done).toBe(false);
    expect(await workspace.own.mailboxes.ids(bob)).toEqual([id]);
  });

  it('waits longer after every failure, up to five minutes', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const who = { name: bob, home: workspace.own };
    const pauses: number[] = [];
    for (const failuresBefore of [0, 1, 2, 5, 6, 7, 20]) {
      const entry = anEntry();
      await workspace.own.mailboxes.put(entry);
      const { id } = entry.message;
      const long = new Date(Date.now() - 3_600_000).toISOString();
      for (let failure = 1; failure <= failuresBefore; failure += 1) {
        await workspace.own.journal.record(bob, id, { step: 'released', at: long, evidence: { failure } });
      }
      const { againMs } = await work({ who }, id, async () => ({ done: false, evidence: { because: 'test' } }));
      pauses.push((againMs ?? 0) / 1000);
      const { againMs: left } = await work({ who }, id, () => Promise.reject(new Error('too early')));
      expect(left ?? 0).toBeWithin(1, (againMs ?? 0) + 1);
    }
    expect(pauses).toEqual([5, 10, 20, 160, 300, 300, 300]);
  });

  it('waits again at once when its worker throws', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const entry = anEntry();
    await workspace.own.mailboxes.put(entry);
    const { id } = entry.message;
    const who = { name: bob, home: workspace.own };
    await expect(work({ who }, id, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await workspace.own.mailboxes.ids(bob)).toEqual([id]);
    expect(await work({ who }, id, async () => ({ done: true, evidence: {} }))).toEqual({ done: true, againMs: null });
  });
});

describe('parley watch', () => {
  it('only shows: each message once, and after a restart what still waits', async () => {
    const machine = new Machine();
    const { program } = machine;
    await program.init('alice', 'bob');
    await program.run(['send', '@bob', 'one']);
    const first = machine.start('parley', ['watch', '--as', 'bob']);
    await first.complains('watching for mail to @bob; it still waits when shown, --take takes it (Ctrl-C stops)');
    await first.says('one');
    await program.run(['send', '@bob', 'two']);
    await first.says('two');
    await first.stop();
    expect(first.out.match(/one|two/g)).toEqual(['one', 'two']);
    expect(await bodiesOf(program, 'bob')).toEqual(['one', 'two']);
    await program.run(['drain', '--limit', '1'], { as: 'bob' });
    const second = machine.start('parley', ['watch', '--as', 'bob']);
    await second.says('two');
    await second.stop();
    expect(second.out).not.toContain('one');
    expect(await bodiesOf(program, 'bob')).toEqual(['two']);
  });

  it('takes with --exec when the command ends with 0, and not with --exec --peek', async () => {
    const machine = new Machine();
    const { program } = machine;
    await program.init('alice', 'bob');
    await program.run(['send', '@bob', 'work']);
    const looking = machine.start('parley', ['watch', '--peek', '--exec', 'echo "saw {{body}}"', '--as', 'bob']);
    await looking.says('saw work');
    await looking.stop();
    expect(await bodiesOf(program, 'bob')).toEqual(['work']);
    const taking = machine.start('parley', ['watch', '--exec', 'echo "did {{body}}"', '--as', 'bob']);
    await taking.says('did work');
    await taking.stop();
    expect(await bodiesOf(program, 'bob')).toEqual([]);
  });

  it('ends with --once when mail waits that would wake its reader, says so in a line and takes nothing', async () => {
    const machine = new Machine();
    const { program } = machine;
    await program.init('alice', 'bob');
    const waiter = machine.start('parley', ['watch', '--once', '--as', 'bob']);
    await program.run(['send', '@bob', 'thanks', '--intent', 'thanks']);
    await program.run(['send', '@bob', 'Is it red?']);
    await waiter.child.exited;
    expect(waiter.out).toBe('mail waits for @bob: 1 from @alice; see it with `parley inbox`\n');
    expect(await bodiesOf(program, 'bob')).toContain('Is it red?');
    for (const more of [['--take'], ['--exec', 'true'], ['--exec', 'true', '--peek'], ['--notify']])
      expect(await program.run(['watch', '--once', ...more], { as: 'bob' })).toMatchObject({
        err: 'parley: --once only says that mail waits; leave out --take, --exec and --notify\n',
        code: 64,
      });
  });

  it('refuses --peek with --take in one line', async () => {
    const { program } = new Machine();
    await program.init('bob');
    expect(await program.run(['watch', '--peek', '--take'])).toEqual({
      out: '',
      err: 'parley: --peek takes nothing and --take does; give one of them\n',
      code: 64,
    });
  });

  it('prints words, or one JSON value a line, and with --take takes what it printed', async () => {
    const machine = new Machine();
    const { program } = machine;
    await program.init('alice', 'bob');
    const json = machine.start('parley', ['watch', '--take', '--json', '--as', 'bob']);
    await program.run(['send', '@bob', 'is it\ndone?', '--intent', 'question']);
    await json.says('\n');
    const { out, code } = await json.stop();
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      body: 'is it\ndone?',
      attention: { policy: 'must_respond' },
      redelivered: false,
    });
    expect(out.trimEnd()).not.toContain('\n');
    const words = machine.start('parley', ['watch', '--take', '--as', 'bob']);
    await words.complains('watching for mail to @bob (Ctrl-C stops)');
    await program.run(['send', '@bob', 'once more']);
    await words.says('once more');
    await words.stop();
    expect(words.out).toMatch(/^[0-9a-f]{8} {2}alice → @bob .*\n {2}once more\n\n$/);
    expect(await program.json<unknown[]>(['inbox'], { as: 'bob' })).toEqual([]);
  });

  it('leaves quiet mail alone unless asked for it', async () => {
    const machine = new Machine();
    const { program } = machine;
    await program.init('alice', 'bob');
    await program.run(['sub', '#dev'], { as: 'bob' });
    await program.run(['send', '#dev', 'deployed', '--intent', 'status']);
    await program.run(['send', '@bob', 'loud']);
    const watch = machine.start('parley', ['watch', '--as', 'bob']);
    await watch.says('loud');
    await watch.stop();
    expect(watch.out).not.toContain('deployed');
    const all = machine.start('parley', ['watch', '--all', '--as', 'bob']);
    await all.says('deployed');
    await all.stop();
  });

  it('tells the desktop, with the words of a message as arguments, never as code', async () => {
    const machine = new Machine();
    const { program } = machine;
    await program.init('alice', 'bob');
    const bin = `${program.home}/bin`;
    mkdirSync(bin);
    writeFileSync(`${bin}/notify-send`, `#!/bin/sh\nprintf '%s\\n' "$@" >> ${program.home}/told\n`);
    chmodSync(`${bin}/notify-send`, 0o755);
    const watch = machine.start('parley', ['watch', '--peek', '--notify', '--as', 'bob'], {
      env: { PATH: `${bin}:${process.env['PATH']}` },
    });
    await program.run(['send', '@bob', '$(touch x) <b>bold</b>\n`touch x` & \u001b[1m', '--urgent']);
    await until('the notice', () => existsSync(`${program.home}/told`));
    await watch.stop();
    expect(readFileSync(`${program.home}/told`, 'utf8')).toBe(
      '--app-name=parley\n--\nUrgent mail from alice\n$(touch x) &#60;b&#62;bold&#60;/b&#62; `touch x` &#38; ␛[1m\n',
    );
    expect(existsSync(`${program.home}/x`)).toBe(false);
    const bell = machine.start('parley', ['watch', '--notify', '--as', 'bob'], {
      env: { PATH: `${program.home}/none` },
    });
    await bell.complains('\u0007');
    await bell.stop();
  });
});

// Side by side, because both wait for five seconds to pass.
describe('what takes its time', () => {
  it.concurrent('watch --exec leaves a message whose command failed where everybody sees it, and tries again after 5 s [BC-18]', async () => {
    const machine = new Machine().agent('bob');
    const tries = `${machine.program.home}/tries`;
    const id = machine.leave('bob', { body: 'hard' });
    const exec = `date +%s%N >> ${tries}; test "$(wc -l < ${tries})" -ge 2`;
    const first = machine.start('bch', ['watch', '--exec', exec], { as: 'bob' });
    await first.complains('the command ended with 1');
    await until('its return', () => machine.files('bob', 'new').length === 1);
    await first.stop();
    expect(await machine.said(['inbox'], { as: 'bob' })).toContain('hard');
    // Another watcher keeps the pause of the first, and works on other mail meanwhile.
    machine.leave('bob', { body: 'easy' });
    const second = machine.start('bch', ['watch', '--exec', `test "$BCH_BODY" = easy || { ${exec}; }`], { as: 'bob' });
    await second.says('easy');
    await second.says('hard');
    await until('the end of it', () => machine.files('bob', 'new').length + machine.files('bob', 'held').length === 0);
    await second.stop();
    const [one = 0, two = 0, ...more] = readFileSync(tries, 'utf8').trim().split('\n').map(Number);
    expect(more).toEqual([]);
    expect((two - one) / 1e9).toBeGreaterThan(4.9);
    const trace = await machine.program.run(['trace', id], { as: 'bob' });
    expect(trace.out).toMatch(/released .*because the command ended with 1, failure 1\n/);
    expect(trace.out).toMatch(/settled .*acknowledged, by watch --exec, agent bob/);
  });

  it.concurrent('watch finds by itself a message that comes back without an arrival', async () => {
    const machine = new Machine();
    const { program } = machine;
    await program.init('alice', 'bob');
    await program.run(['send', '@bob', 'held for a while']);
    await program.run(['take', '--lease', '1s'], { as: 'bob' });
    const watch = machine.start('parley', ['watch', '--as', 'bob']);
    await watch.says('held for a while');
    await watch.stop();
    expect(watch.out).toContain('redelivered');
  });
});

/** The texts that wait for an agent. */
async function bodiesOf(program: Program, agent: string): Promise<string[]> {
  return (await program.json<Message[]>(['inbox'], { as: agent })).map(({ body }) => body);
}

/** What stands after the head of each line that watch printed. */
function bodies(out: string): string[] {
  return out
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/^.*?\): /, ''));
}

/** Not one that has ended and that nobody has buried yet. */
function isRunning(pid: string): boolean {
  const state = Bun.spawnSync(['ps', '-o', 'stat=', '-p', pid.trim()]).stdout.toString();
  return state !== '' && !state.startsWith('Z');
}
