import { existsSync, readdirSync } from 'node:fs';
import { becomeOwner, ownersOf, refuseOtherOwner } from '../../flow/appoint.ts';
import type { Home, Who } from '../../flow/desk.ts';
import { bridgeName } from '../../flow/host/source.ts';
import { sendHeld } from '../../flow/people.ts';
import { send } from '../../flow/send.ts';
import { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { AgentRecord } from '../../storage/directory/directory.ts';
import { command } from '../command.ts';
import { refuseUnlessUser } from '../consent.ts';
import { agentName } from '../context.ts';
import type { Context } from '../context.ts';
import type { Application } from '../enlist.ts';
import { prepareHook } from '../hook-setup.ts';
import { becomeDefault } from '../settings-file.ts';
import { parleyHome } from '../env.ts';
import { TOKEN_FILE, tokenFrom, tokenWarning } from '../token.ts';
import { parseDraft } from './send.ts';

export default command({
  usage: 'init <name>',
  about:
    'Makes a mailbox on this machine, or, with --url, on a relay. The first one made is who you are here; others are used with ' +
    '--as or PARLEY_AGENT.',
  options: {
    human: { type: 'boolean', help: 'this mailbox belongs to a person' },
    owner: { type: 'boolean', help: 'this person is told when nobody else can decide; there is one' },
    'instead-of': { type: 'string', value: 'name', help: 'take the place of this owner' },
    default: { type: 'boolean', help: 'be this agent from now on' },
    url: { type: 'string', value: 'url', help: 'make it on this relay' },
    'token-file': {
      ...TOKEN_FILE,
      help: "the token of the relay's room, in a file or on stdin (-); or set PARLEY_TOKEN",
    },
    token: { type: 'string', value: 'token', help: 'the same, seen by everybody in `ps`' },
    room: { type: 'string', value: 'id', help: 'which room of the relay' },
    insecure: { type: 'boolean', help: 'accept a relay without TLS on a network that you trust' },
    session: {
      type: 'string',
      value: 'id',
      help: "bind this session of a client to the mailbox, for the client's hooks",
    },
  },
  words: [1, 1],
  examples: [
    'parley init claude-main',
    'parley init codex-1',
    'parley init ada --human --owner',
    'parley init bob --human --owner --instead-of ada',
    'parley init codex-1 --url https://relay.example.org --token-file room-token',
    'PARLEY_AGENT=codex-1 parley inbox',
  ],
  async run(context, values, [text = '']) {
    const name = agentName(text);
    if (values.human || values.owner) refuseUnlessUser(context.env, "make a person's mailbox");
    const { url, room, insecure = false, session } = values;
    if (url !== undefined) {
      if (values.human || values.owner)
        throw new Refusal(
          'invalid_request',
          '--human and --owner are for a mailbox on this machine; a relay knows no people',
        );
      const byDefault = values.default ?? false;
      const token = tokenFrom(values, context.cwd, context.env['PARLEY_TOKEN']);
      if (values.token !== undefined) context.note(`warning: ${tokenWarning('PARLEY_TOKEN')}`);
      return initAtRelay(context, { agent: name, url, token, room, insecure, session, byDefault });
    }
    if ((values.token ?? values['token-file'] ?? room) !== undefined)
      throw new Refusal('invalid_request', '--token-file, --token and --room are for a relay; say which: --url');
    const home = context.desk.homes.find((one) => one.label === 'parley');
    if (!home) return;
    refuseRelayName(home.root, name);
    const others = context.desk.homes.filter((one) => one !== home && !one.far);
    const twins = await Promise.all(others.map((other) => other.directory.get(name)));
    if (twins.some(Boolean)) {
      context.note(`@${name} is in another home too; from now on write @${name}%parley or @${name}%bch`);
    }
    const before = await home.directory.get(name);
    refuseOtherKind(name, before, values);
    refusePersonsSession(name, values.human || before?.parley?.kind === 'human', values.session);
    if (!before) await refuseSurfaceName(home, name);
    const former = values['instead-of'] === undefined ? undefined : agentName(values['instead-of']);
    if (values.owner) refuseOtherOwner(await ownersOf(home), name, former);
    const existed = before !== null;
    await home.directory.register(name, values.human ? 'human' : 'agent');
    const isOwner = values.owner === true && (await makeOwner(context, { name, home }, former));
    await home.spool.heal();
    await home.spool.adopt(name);
    prepareHook(context, { name, home }, values.session);
    const config = `${parleyHome(context.env)}/config.json`;
    const isDefault = becomeDefault(config, name, values.default ?? false) === name;
    const { kind, owner = false } = (await home.directory.get(name))?.parley ?? { kind: 'agent' };
    if (context.json)
      return context.sayJson({ agent: name, home: home.root, kind, owner, default: isDefault, existed });
    const done = existed ? `mailbox @${name} was here already, in` : `made mailbox @${name} in`;
    context.say(`${context.paint.green(done)} ${home.root}`);
    if (values.owner)
      context.say(
        `@${name} ${isOwner ? 'is the owner now' : 'was the owner already'}: who is told when nobody else can decide`,
      );
    context.say(
      isDefault
        ? `You are @${name} here. Next: parley send @<someone> "hello"   (parley agents lists who is here)`
        : `Act as it with --as ${name} or PARLEY_AGENT=${name}; to make it the default: parley init ${name} --default`,
    );
  },
});

/** A mailbox keeps its kind: otherwise an agent could make itself a person, and answer for one. */
function refuseOtherKind(
  name: AgentName,
  before: AgentRecord | null,
  { human, owner, 'instead-of': insteadOf }: { human?: boolean; owner?: boolean; 'instead-of'?: string },
): void {
  if (insteadOf !== undefined && !owner) throw new Refusal('invalid_request', '--instead-of goes with --owner');
  const kind = before ? (before.parley?.kind ?? 'agent') : human ? 'human' : 'agent';
  if (human && kind !== 'human')
    throw new Refusal(
      'name_taken',
      `@${name} is here as an agent and stays one; make a person's mailbox under another name`,
    );
  if (owner && kind !== 'human')
    throw new Refusal(
      'invalid_request',
      `only a person can be the owner: parley init ${before ? '<name>' : name} --human --owner`,
    );
}

/** A session is a model's: it gets the mailbox of an agent. */
function refusePersonsSession(name: AgentName, isPerson: boolean, session: string | undefined): void {
  if (isPerson && session !== undefined)
    throw new Refusal('invalid_request', `@${name} is a person; bind the session to an agent: parley init <agent>`);
}

/** Under the name of a platform are the people of its surface: whoever has that id there would speak for this agent. */
export async function refuseSurfaceName(home: Home, name: AgentName): Promise<void> {
  const platform = AgentName.safeParse(name.split('.')[0]);
  if (!name.includes('.') || !platform.success || !(await home.directory.get(bridgeName(platform.data)))) return;
  throw new Refusal(
    'name_taken',
    `names that begin with "${platform.data}." are those of a surface; pick another name`,
  );
}

/** Who loses that place is told so: nobody should learn late that another decides now. */
async function makeOwner(context: Context, who: Who, former: AgentName | undefined): Promise<boolean> {
  const isNew = await becomeOwner(who, former);
  const held = await sendHeld(context.desk, who.home);
  if (held > 0)
    context.note(
      `${held} ${held === 1 ? 'notice was' : 'notices were'} held for an owner: parley inbox --as ${who.name}`,
    );
  if (!isNew || former === undefined) return isNew;
  const body = `@${who.name} is the owner now, in your place. If that is not right: parley init ${former} --human --owner --instead-of ${who.name}`;
  await send(context.desk, who.name, parseDraft({ to: `@${former}%${who.home.label}`, body, intent: 'fyi' }));
  return isNew;
}

async function initAtRelay(context: Context, application: Application): Promise<void> {
  const { enlist, welcome } = await import('../enlist.ts');
  const { agent, room } = application;
  const done = await enlist(context, application);
  const { url, root: home, isDefault, existed } = done;
  if (context.json) return context.sayJson({ agent, url, room, home, default: isDefault, existed });
  context.say(`${context.paint.green(existed ? 'you were here already:' : 'made mailbox')} @${agent} at ${url}`);
  welcome(context, agent, done);
}

/** One name, one inbox: see enlist.ts. */
function refuseRelayName(root: string, name: string): void {
  const relays = existsSync(`${root}/relays`) ? readdirSync(`${root}/relays`) : [];
  const taken = relays.find((one) => one.startsWith(`${name}@`));
  if (!taken) return;
  throw new Refusal(
    'name_taken',
    `@${name} is at a relay; use another name here, or remove ${root}/relays/${taken} to leave it`,
  );
}
