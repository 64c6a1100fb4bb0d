import { type KeyboardEvent, type RefObject, useState } from "react";

type Options = {
  ids: readonly string[];
  container: RefObject<HTMLElement | null>;
  scrollTo: (index: number) => void;
  onOpen?: (index: number) => void;
  selected?: ReadonlySet<string>;
  onSelect?: (ids: Set<string>) => void;
};

// useRowKeys moves the focus between the rows of a table. Only one of them is in the order of the Tab key.
export function useRowKeys({ ids, container, scrollTo, onOpen, selected, onSelect }: Options) {
  const [active, setActive] = useState(0);
  const at = Math.min(active, Math.max(0, ids.length - 1));

  const focus = (next: number) => {
    const index = Math.max(0, Math.min(ids.length - 1, next));
    setActive(index);
    scrollTo(index);
    const find = () => container.current?.querySelector<HTMLElement>(`[data-row="${index}"]`);
    const row = find();
    if (row) row.focus({ preventScroll: true });
    // A row that was out of view exists only after the scroll was painted.
    else requestAnimationFrame(() => find()?.focus({ preventScroll: true }));
  };

  const toggle = () => {
    const id = ids[at];
    if (id === undefined || !onSelect) return;
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect(next);
  };

  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const onRow = event.target instanceof HTMLElement && event.target.dataset.row !== undefined;
    const page = Math.max(1, Math.floor((container.current?.clientHeight ?? 320) / 32) - 2);
    const moves: Record<string, () => void> = {
      ArrowDown: () => focus(at + 1),
      j: () => focus(at + 1),
      ArrowUp: () => focus(at - 1),
      k: () => focus(at - 1),
      PageDown: () => focus(at + page),
      PageUp: () => focus(at - page),
      Home: () => focus(0),
      End: () => focus(ids.length - 1),
      ...(onRow ? { x: toggle, " ": toggle, Enter: () => onOpen?.(at) } : {}),
      ...(selected && selected.size > 0 ? { Escape: () => onSelect?.(new Set()) } : {}),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  };

  return { active: at, setActive, onKeyDown };
}
