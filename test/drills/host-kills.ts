import { openWorkspace } from '../../src/daemon/homes.ts';
import { enterObligations } from '../../src/core/obligations/obligation.ts';
import { BODY_LIMIT } from '../../src/core/message.ts';
import { AgentName } from '../../src/core/names.ts';
import type { MessageId } from '../../src/core/names.ts';
import { HostClient } from '../support/host-client.ts';
import type { Told } from '../support/host-server.ts';
import { temporaryHome } from '../support/home.ts';
import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';
import { PARLEY } from '../support/program.ts';

const LEAD = AgentName.parse('lead');
const PEOPLE = 8;
const ENOUGH_MS = 2 * 60_000;

/** One question of a person: asked until the host has it, answered when the chat was told to show an answer. */
interface Question {
  eventId?: string;
  /** The ids of the answers that were shown. The same id twice is one answer: a chat knows it by its key. */
  answers: Set<string>;
}

/**
 * People ask at a chat, an agent answers each of them, and the host is killed again and again. In the end each question has one
 * answer, was put before the model with its text, and is not owed any more.
 */
export const hostKills: Drill = {
  name: 'a host that is killed every few seconds',
  async run(isLong, tell) {
    const [lastsMs, everyMs] = isLong ? [5 * 60_000, 5000] : [12_000, 1500];
    const root = temporaryHome();
    const env = {
      PARLEY_HOME: `${root}/home`,
      BACKCHANNEL_HOME: `${root}/none`,
      HOME: root,
      PATH: process.env['PATH'] ?? '',
    };
    const workspace = openWorkspace(env, { bodyLimit: BODY_LIMIT, durability: 'normal' });
    const [home] = workspace.homes;
    if (!home) throw new Error('a workspace has a home');
    await home.directory.register(LEAD, 'agent');
    const socket = `${root}/home/host/socket`;
    const faults = new Faults();
    const questions = new Map<string, Question>();
    const textless = new Set<string>();
    const start = () => Bun.spawn([PARLEY, 'host'], { env, cwd: root, stdio: ['ignore', 'ignore', 'ignore'] });
    let host = start();
    let isAsked = true;
    let isOver = false;

    /** Connects again whenever the host is away, until the end. */
    const stays = async (serve: (client: HostClient) => Promise<void>): Promise<void> => {
      while (!isOver) {
        const client = await HostClient.onSocket(socket).catch(() => null);
        await (client && serve(client).catch(() => {}));
        client?.close();
        await Bun.sleep(20);
      }
    };

    let token: string | undefined;
    /** Accepted and not answered: a harness that has accepted an event answers it, over whichever connection. */
    const accepted = new Set<string>();
    const harness = stays(async (client) => {
      await client.initialize();
      const bind = { sessionId: 'one', identities: ['lead'], ...(token !== undefined && { token }) };
      ({ token } = await client.done<{ token: string }>('session/bind', bind));
      for (;;) {
        for (const eventId of accepted) {
          const answer = { text: `answer to ${eventId}`, inReplyTo: eventId, idempotencyKey: `answer ${eventId}` };
          const said = { ...answer, target: `thread:${eventId}`, visibility: 'dm', directedness: 'to_me' };
          await client.done('tools/call', { sessionId: 'one', name: 'chat.send_message', arguments: said });
          accepted.delete(eventId);
        }
        const event = await client.event();
        const { eventId, content = [], knock } = event.params as unknown as Delivered;
        if (!knock && !content.some(({ text = '' }) => text.startsWith('question'))) textless.add(eventId);
        accepted.add(eventId);
        client.ack(event);
      }
    });

    let surface: HostClient | null = null;
    const chat = stays(async (client) => {
      await client.initialize({ role: 'surface' });
      await client.done('surface/bind', { platform: 'slack', workspaceId: 'T1' });
      surface = client;
      for (;;) {
        const told: Told = await client.next(({ method }) => method === 'surface/show');
        const { id, text = '' } = told.params as unknown as { id: string; text?: string };
        for (const one of questions.values()) if (text === `answer to ${one.eventId}`) one.answers.add(id);
        client.ack(told);
      }
    });

    const people = Array.from({ length: PEOPLE }, async (_, person) => {
      for (let n = 0; isAsked; n += 1) {
        const messageId = `m-${person}-${n}`;
        const question: Question = { answers: new Set() };
        questions.set(messageId, question);
        const post = {
          messageId,
          conversation: { id: `D${person}`, kind: 'dm' },
          author: { id: `U${person}`, kind: 'human' },
          recipient: 'lead',
          content: [{ type: 'text', text: `question ${n} of ${person}` }],
          intent: 'approval',
        };
        while (question.eventId === undefined) {
          const stored = await surface?.done<{ eventId: string }>('surface/post', post).catch(() => null);
          if (stored) question.eventId = stored.eventId;
          else await Bun.sleep(50);
        }
        const since = Date.now();
        while (question.answers.size === 0 && Date.now() - since < ENOUGH_MS) await Bun.sleep(20);
      }
    });

    let kills = 0;
    for (const since = Date.now(); Date.now() - since < lastsMs;) {
      await Bun.sleep(everyMs);
      host.kill('SIGKILL');
      await host.exited;
      host = start();
      kills += 1;
      if (kills % 10 === 0) tell(`${kills} kills, ${questions.size} questions`);
    }
    isAsked = false;
    await Promise.all(people);
    // A chat shows an answer before the host has told the harness that it took it.
    for (const since = Date.now(); accepted.size > 0 && Date.now() - since < ENOUGH_MS;) await Bun.sleep(20);
    isOver = true;
    host.kill('SIGKILL');
    await host.exited;
    await Promise.all([harness, chat]);

    const unanswered = [...questions].filter(([, { answers }]) => answers.size === 0).map(([id]) => id);
    const doubled = [...questions].filter(([, { answers }]) => answers.size > 1).map(([id]) => id);
    faults.none(unanswered, 'questions have no answer');
    faults.none(doubled, 'questions have two answers');
    faults.none(textless, 'events came without their text');
    faults.expect(questions.size > PEOPLE, 'hardly anything was asked');
    await enterObligations(home);
    const open: string[] = [];
    for (const { eventId = '' } of questions.values()) {
      if (!(await home.journal.obligation(LEAD, eventId as MessageId))?.ended) open.push(eventId);
    }
    faults.none(open, 'are left open');
    await home.mailboxes.close();
    await home.journal.close();
    return { counts: { questions: questions.size, kills }, faults: faults.found };
  },
};

interface Delivered {
  eventId: string;
  content?: { text?: string }[];
  knock?: object;
}
