import { useCallback, useEffect, useRef, useState } from "react";
import { send } from "@/api/client";
import { targetUrl } from "./api";
import { bodyOf, converse, type Message, type Params, type Rate, rateOf } from "./chat";

// Turn is one message of a column with what is known of it.
export type Turn = Message & { key: number; rate?: Rate; finish?: string | null; error?: unknown };
export type Column = { turns: Turn[]; busy: boolean };
type Columns = Record<number, Column>;

const empty: Column = { turns: [], busy: false };
let keys = 0;

// useColumns holds the conversation with each target of a session. All of them stream at once.
export function useColumns(session: string) {
  const [columns, setColumns] = useState<Columns>({});
  const held = useRef<Columns>({});
  const flights = useRef(new Map<number, AbortController>());

  const put = useCallback((target: number, change: (column: Column) => Column) => {
    held.current = { ...held.current, [target]: change(held.current[target] ?? empty) };
    setColumns(held.current);
  }, []);

  const stop = useCallback((target?: number) => {
    for (const [at, flight] of flights.current) if (target === undefined || at === target) flight.abort();
  }, []);

  useEffect(() => () => stop(), [stop]);

  const ask = useCallback(
    async (target: number, text: string, params: Params) => {
      const before = held.current[target] ?? empty;
      if (before.busy) return;
      const flight = new AbortController();
      flights.current.set(target, flight);
      const question: Turn = { key: ++keys, role: "user", content: text };
      const reply: Turn = { key: ++keys, role: "assistant", content: "" };
      put(target, (c) => ({ busy: true, turns: [...c.turns, question, reply] }));
      // Pieces come faster than the screen can show them.
      let frame = 0;
      let current = reply;
      const show = (next: Turn) => {
        current = next;
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          put(target, (c) => ({ ...c, turns: c.turns.map((t) => (t.key === reply.key ? current : t)) }));
        });
      };
      const messages = [...before.turns, question]
        .filter((turn) => !turn.error && turn.content !== "")
        .map(({ role, content }) => ({ role, content }));
      const began = performance.now();
      let first: number | null = null;
      let pieces = 0;
      try {
        await converse(
          new URL(targetUrl(session, target), location.origin).href,
          bodyOf(messages, params),
          send,
          (piece) => {
            const now = performance.now();
            if (piece.text !== "") {
              first ??= now;
              pieces++;
            }
            const rate =
              piece.text !== "" || piece.tokens !== null
                ? rateOf(began, first, now, pieces, piece.tokens)
                : current.rate;
            show({ ...current, content: current.content + piece.text, rate, finish: piece.finish ?? current.finish });
          },
          flight.signal,
        );
      } catch (error) {
        if (flight.signal.aborted) current = { ...current, finish: "stopped" };
        else current = { ...current, error };
      }
      cancelAnimationFrame(frame);
      flights.current.delete(target);
      const last = current;
      put(target, (c) => ({ busy: false, turns: c.turns.map((t) => (t.key === reply.key ? last : t)) }));
    },
    [put, session],
  );

  const clear = useCallback(() => {
    stop();
    held.current = {};
    setColumns({});
  }, [stop]);

  return { columns, ask, stop, clear };
}
