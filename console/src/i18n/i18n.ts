import i18next, { type BackendModule, type i18n } from "i18next";
import { initReactI18next } from "react-i18next";

// tag is the language of the console: of its texts, and of the formats of numbers and times.
export const tag = "en";

type Texts = Record<string, unknown>;
type Load = () => Promise<{ default: Texts }>;

// The texts of the shell (namespace "app"), of errors ("errors") and of each area (its folder's name).
const shell = import.meta.glob<{ default: Texts }>("./*.json");
const areas = import.meta.glob<{ default: Texts }>("../screens/*/en.json");

function find(namespace: string): Load | undefined {
  if (namespace === "app") return shell["./en.json"];
  if (namespace === "errors") return shell["./errors.en.json"];
  return areas[`../screens/${namespace}/en.json`];
}

const backend: BackendModule = {
  type: "backend",
  init: () => undefined,
  read: (_, namespace, done) => {
    const load = find(namespace);
    if (!load) {
      done(new Error(`no texts for ${namespace}`), null);
      return;
    }
    load().then(
      (module) => done(null, module.default as never),
      (error: Error) => done(error, null),
    );
  },
};

export async function startTexts(): Promise<i18n> {
  await i18next
    .use(backend)
    .use(initReactI18next)
    .init({
      lng: tag,
      fallbackLng: tag,
      ns: ["app"],
      defaultNS: "app",
      fallbackNS: "app",
      interpolation: { escapeValue: false },
      react: { useSuspense: true },
      returnNull: false,
    });
  return i18next;
}

// texts loads the texts of an area. The route of a screen waits for it, so that no screen shows a key.
export async function texts(namespace: string): Promise<void> {
  await i18next.loadNamespaces(namespace);
}
