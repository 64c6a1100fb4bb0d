import { act, render, screen } from "@testing-library/react";
import { Component, type ReactNode } from "react";
import { expect, it } from "vitest";
import { PartOf, part } from "./part";

const Hello = ({ name }: { name: string }) => <p>hello {name}</p>;

it("shows the fallback until the part is loaded, and not at all after that", async () => {
  const { promise, resolve } = Promise.withResolvers<typeof Hello>();
  let reads = 0;
  const hello = part(() => {
    reads++;
    return promise;
  });
  const show = () => render(<PartOf part={hello} props={{ name: "ann" }} fallback="wait" />);
  const first = show();
  expect(first.container.textContent).toBe("wait");
  await act(async () => resolve(Hello));
  expect(first.container.textContent).toBe("hello ann");
  expect(show().container.textContent).toBe("hello ann");
  expect(reads).toBe(1);
});

class Boundary extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };
  static getDerivedStateFromError = () => ({ failed: true });
  override render() {
    return this.state.failed ? <p>failed</p> : this.props.children;
  }
}

it("fails if the part cannot be loaded, and loads it again the next time", async () => {
  let works = false;
  const hello = part(() => (works ? Promise.resolve(Hello) : Promise.reject(new Error("offline"))));
  render(
    <Boundary>
      <PartOf part={hello} props={{ name: "ann" }} fallback="wait" />
    </Boundary>,
    { onCaughtError: () => undefined },
  );
  await screen.findByText("failed");
  works = true;
  render(<PartOf part={hello} props={{ name: "bob" }} fallback="wait" />);
  await screen.findByText("hello bob");
});
