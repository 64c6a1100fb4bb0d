import { useId, useState } from "react";
import { useTranslation } from "react-i18next";
import { Input, Select } from "@/ui";
import type { XKind } from "./curve";
import { type ChartView, xKinds } from "./view";

type Props = { view: ChartView; onView: (change: Partial<ChartView>) => void; keys: readonly string[] };

// AxisPicker selects the x axis of all charts: steps, a time, or another metric if there are any.
export function AxisPicker({ view, onView, keys }: Props) {
  const { t } = useTranslation("job");
  const { x = "step" } = view;
  const kinds = xKinds.filter((kind) => kind !== "metric" || keys.length > 0);
  const pick = (next: XKind) =>
    onView({
      x: next === "step" ? undefined : next,
      over: next === "metric" ? keys[0] : undefined,
      logx: next === "time" ? undefined : view.logx,
      from: undefined,
      to: undefined,
    });
  return (
    <>
      <Select
        label={t("bar.x")}
        value={x}
        onChange={pick}
        options={kinds.map((value) => ({ value, label: t(`bar.xKind.${value}`) }))}
        className="w-full xl:w-40"
      />
      {x === "metric" && keys.length > 0 ? (
        <KeyInput
          key={view.over}
          value={view.over ?? ""}
          keys={keys}
          onPick={(over) => onView({ over, from: undefined, to: undefined })}
        />
      ) : null}
    </>
  );
}

// KeyInput is a text with suggestions, because a run may have more metrics than fit a list.
function KeyInput({ value, keys, onPick }: { value: string; keys: readonly string[]; onPick: (key: string) => void }) {
  const { t } = useTranslation("job");
  const list = useId();
  const [text, setText] = useState(value);
  return (
    <div className="w-full xl:w-44">
      <Input
        list={list}
        aria-label={t("bar.over")}
        value={text}
        className="font-mono"
        onChange={(event) => {
          setText(event.target.value);
          if (event.target.value !== value && keys.includes(event.target.value)) onPick(event.target.value);
        }}
        onBlur={() => setText(value)}
      />
      <datalist id={list}>
        {keys.map((key) => (
          <option key={key} value={key} />
        ))}
      </datalist>
    </div>
  );
}
