import type { ReactNode } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import gfm from "remark-gfm";
import { visible } from "@/lib/untrusted";

const longest = 200_000;

const components: Components = {
  h1: (p) => <h2 className="mt-5 mb-2 text-lg font-semibold first:mt-0">{p.children}</h2>,
  h2: (p) => <h3 className="mt-4 mb-1.5 text-base font-semibold first:mt-0">{p.children}</h3>,
  h3: (p) => <h4 className="mt-3 mb-1 font-semibold first:mt-0">{p.children}</h4>,
  p: (p) => <p className="my-2 first:mt-0 last:mb-0">{p.children}</p>,
  ul: (p) => <ul className="my-2 list-disc pl-5">{p.children}</ul>,
  ol: (p) => <ol className="my-2 list-decimal pl-5">{p.children}</ol>,
  blockquote: (p) => <blockquote className="my-2 border-l-2 border-edge pl-3 text-soft">{p.children}</blockquote>,
  code: (p) => <code className="rounded bg-sunken px-1 py-0.5 font-mono text-xs">{p.children}</code>,
  pre: (p) => (
    <pre className="scroll-thin my-2 overflow-x-auto rounded-lg border bg-sunken p-3 [&>code]:bg-transparent [&>code]:p-0">
      {p.children}
    </pre>
  ),
  table: (p) => (
    <div className="scroll-thin my-2 overflow-x-auto">
      <table className="border-collapse text-xs">{p.children}</table>
    </div>
  ),
  th: (p) => <th className="border px-2 py-1 text-left font-medium">{p.children}</th>,
  td: (p) => <td className="border px-2 py-1">{p.children}</td>,
  a: (p) => <Outside href={p.href}>{p.children}</Outside>,
  // An image of another host would tell that host who reads the page, and the content security policy forbids it.
  img: (p) => <Outside href={typeof p.src === "string" ? p.src : undefined}>{p.alt || p.src}</Outside>,
};

// Outside is a link that someone else wrote. react-markdown empties an address whose scheme is not safe, such as
// javascript:, and an empty address would lead to this page: then only the text is left.
function Outside({ href, children }: { href: string | undefined; children: ReactNode }) {
  if (!href) return <span>{children}</span>;
  return (
    <a href={href} rel="noopener noreferrer nofollow" target="_blank" className="text-accent underline">
      {children}
    </a>
  );
}

export default function MarkdownBody({ text }: { text: string }) {
  return (
    <ReactMarkdown remarkPlugins={[gfm]} components={components}>
      {visible(text, longest).text}
    </ReactMarkdown>
  );
}
