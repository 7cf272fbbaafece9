import { mentionsIn } from '../../attention/mentions.ts';
import { AgentName } from '../../protocol/names.ts';
import { HOST_NAME } from '../../protocol/signal.ts';
import type { AgentRecord } from '../../storage/directory/directory.ts';
import type { HostDeps, Person } from './deps.ts';

/** How long a record is believed. */
const FRESH_MS = 5000;
const MOST_KNOWN = 2000;
/** Who has this role may interrupt those whom it leads. */
const LEAD = 'lead' as AgentName;
/** How many names in one text are looked up. */
const MENTIONS = 20;

/** Who is who, for frames: read again after a few seconds. */
export class People {
  readonly #known = new Map<string, { record: AgentRecord | null; until: number }>();

  constructor(readonly deps: Pick<HostDeps, 'home' | 'now'>) {}

  async person(name: string): Promise<Person> {
    if (name === HOST_NAME) return { name, kind: 'system', displayName: 'Parley', isLead: false };
    const parley = (await this.#record(name))?.parley;
    return {
      name,
      kind: parley?.kind ?? 'agent',
      displayName: await this.#nameShown(name, parley?.displayName),
      isLead: parley?.roles.includes(LEAD) ?? false,
    };
  }

  /** What somebody calls itself, unless another has that for a name: in a header the two could not be told apart. */
  async #nameShown(name: string, called = name): Promise<string> {
    const plain = called.normalize('NFKC').replace(/^@/, '').trim();
    for (const other of new Set([plain, plain.toLowerCase()])) {
      if (other !== name && (await this.#record(other))) return name;
    }
    return called;
  }

  /** The agents, people and roles that a text calls, as `agent:name`, `human:name` and `role:name`. */
  async called(body: string): Promise<string[]> {
    const called: string[] = [];
    if (!body.includes('@')) return called;
    for (const name of mentionsIn(body).slice(0, MENTIONS)) {
      const known = AgentName.safeParse(name);
      if (!known.success) continue;
      const record = await this.#record(name);
      if (record) called.push(`${record.parley?.kind ?? 'agent'}:${name}`);
      else if ((await this.deps.home.directory.members(known.data)).length > 0) called.push(`role:${name}`);
    }
    return called;
  }

  async #record(name: string): Promise<AgentRecord | null> {
    const now = this.deps.now();
    const known = this.#known.get(name);
    if (known && known.until > now) return known.record;
    const agent = AgentName.safeParse(name);
    const record = agent.success ? await this.deps.home.directory.get(agent.data) : null;
    if (this.#known.size >= MOST_KNOWN) this.#known.clear();
    this.#known.set(name, { record, until: now + FRESH_MS });
    return record;
  }
}
