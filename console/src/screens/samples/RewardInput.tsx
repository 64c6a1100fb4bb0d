import { useEffect, useRef, useState } from "react";
import { Input } from "@/ui";

const pause = 400;

type Props = { label: string; value: number | undefined; onChange: (value: number | undefined) => void };

// RewardInput is a bound of the rewards. A text that is not a number yet changes nothing.
export function RewardInput({ label, value, onChange }: Props) {
  const [text, setText] = useState(value === undefined ? "" : String(value));
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) setText(value === undefined ? "" : String(value));
    sent.current = value;
  }, [value]);
  const number = text.trim() === "" ? undefined : Number(text);
  const valid = number === undefined || Number.isFinite(number);
  useEffect(() => {
    if (!valid || number === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = number;
      onChange(number);
    }, pause);
    return () => clearTimeout(timer);
  }, [number, valid, onChange]);
  return (
    <Input
      inputMode="decimal"
      aria-label={label}
      aria-invalid={valid ? undefined : true}
      placeholder={label}
      value={text}
      maxLength={24}
      className="w-28! tabular"
      onChange={(event) => setText(event.target.value)}
    />
  );
}
