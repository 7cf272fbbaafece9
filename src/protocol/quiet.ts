import * as v from 'valibot';
import { Schema } from './schema.ts';
import type { Described } from './schema.ts';

/** When somebody wants no disturbance: always, until a time, or every day between two times of the home's clock. spec: c2a#hush */
export const Quiet = new Schema(() =>
  v.union([
    v.object({ on: v.literal(true) }),
    v.object({ until: v.pipe(v.string(), v.isoTimestamp()) }),
    v.object({ hours: v.pipe(v.string(), v.regex(/^\d{2}:\d{2}-\d{2}:\d{2}$/)) }),
  ]),
);
export type Quiet = Described<typeof Quiet>;
