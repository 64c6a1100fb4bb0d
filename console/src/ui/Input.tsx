import { type ComponentProps, type ReactNode, useId } from "react";
import { cx } from "@/lib/cx";

const box =
  "w-full rounded-md border border-edge/60 bg-card px-2.5 text-sm text-ink placeholder:text-soft hover:border-edge " +
  "focus-visible:border-accent focus-visible:outline-offset-0 aria-invalid:border-bad disabled:opacity-60";

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input {...rest} className={cx(box, "h-8", className)} />;
}

export function Textarea({ className, ...rest }: ComponentProps<"textarea">) {
  return <textarea {...rest} className={cx(box, "min-h-20 py-1.5", className)} />;
}

type FieldProps = {
  label: string;
  hint?: ReactNode;
  error?: string | null;
  // children gets the attributes that connect the control with its label, hint and error.
  children: (control: { id: string; "aria-describedby"?: string; "aria-invalid"?: boolean }) => ReactNode;
};

// Field is a form control with its label, a hint and the error of its value.
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const note = error || hint ? `${id}-note` : undefined;
  return (
    <div className="grid gap-1">
      <label htmlFor={id} className="text-sm font-medium">
        {label}
      </label>
      {children({ id, "aria-describedby": note, "aria-invalid": error ? true : undefined })}
      {note ? (
        <p id={note} role={error ? "alert" : undefined} className={cx("text-xs", error ? "text-bad" : "text-soft")}>
          {error || hint}
        </p>
      ) : null}
    </div>
  );
}
