import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import MarkdownBody from "./MarkdownBody";

const linksOf = (text: string) => [...render(<MarkdownBody text={text} />).container.querySelectorAll("a")];

test("a link with a scheme that runs code is text", () => {
  const texts = [
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](data:text/html,x)",
    "[a](vbscript:x)",
    "![a](javascript:x)",
    "[a]()",
    "<a href='javascript:x'>a</a>",
  ];
  for (const text of texts) expect(linksOf(text), text).toEqual([]);
});

test("other links open outside of the console and do not tell where they were", () => {
  const [link] = linksOf("[a](https://example.com/b)");
  expect(link?.getAttribute("href")).toBe("https://example.com/b");
  expect(link?.rel).toContain("noreferrer");
  expect(linksOf("![picture](https://example.com/p.png)")[0]?.textContent).toBe("picture");
});
