// Sparkline draws values over their places. Values that are missing or not finite leave a gap. The list beside it has the
// numbers, so it is hidden from screen readers.
export function Sparkline({ values, selected }: { values: readonly (number | null)[]; selected: number }) {
  const finite = values.filter((value): value is number => value !== null && Number.isFinite(value));
  if (finite.length < 2) return <div className="h-8" />;
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of finite) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const x = (at: number) => (at / Math.max(1, values.length - 1)) * 100;
  const y = (value: number) => (high === low ? 15 : 27 - ((value - low) / (high - low)) * 24);
  let path = "";
  let pen = "M";
  values.forEach((value, at) => {
    if (value === null || !Number.isFinite(value)) {
      pen = "M";
      return;
    }
    path += `${pen}${x(at).toFixed(2)} ${y(value).toFixed(2)}`;
    pen = "L";
  });
  const chosen = values[selected];
  return (
    <svg aria-hidden viewBox="0 0 100 30" preserveAspectRatio="none" className="mt-1 h-8 w-full overflow-visible">
      {selected >= 0 ? (
        <line
          x1={x(selected)}
          x2={x(selected)}
          y1={0}
          y2={30}
          vectorEffect="non-scaling-stroke"
          className="stroke-edge"
        />
      ) : null}
      <path d={path} fill="none" vectorEffect="non-scaling-stroke" strokeWidth={1.5} className="stroke-accent" />
      {typeof chosen === "number" && Number.isFinite(chosen) ? (
        <line
          x1={x(selected)}
          x2={x(selected)}
          y1={y(chosen)}
          y2={y(chosen)}
          vectorEffect="non-scaling-stroke"
          strokeWidth={6}
          strokeLinecap="round"
          className="stroke-accent"
        />
      ) : null}
    </svg>
  );
}
