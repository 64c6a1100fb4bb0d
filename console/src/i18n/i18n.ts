import i18next, { type BackendModule, type i18n } from "i18next";
import { initReactI18next } from "react-i18next";

export type Language = "en" | "zh";
export const languages: { id: Language; name: string; tag: string }[] = [
  { id: "en", name: "English", tag: "en" },
  { id: "zh", name: "简体中文", tag: "zh-CN" },
];

type Texts = Record<string, unknown>;
type Load = () => Promise<{ default: Texts }>;

// The texts of the shell (namespace "app"), of errors ("errors") and of each area (its folder's name).
const shell = import.meta.glob<{ default: Texts }>("./*.json");
const areas = import.meta.glob<{ default: Texts }>("../screens/*/{en,zh}.json");

function find(language: string, namespace: string): Load | undefined {
  if (namespace === "app") return shell[`./${language}.json`];
  if (namespace === "errors") return shell[`./errors.${language}.json`];
  return areas[`../screens/${namespace}/${language}.json`];
}

const backend: BackendModule = {
  type: "backend",
  init: () => undefined,
  read: (language, namespace, done) => {
    const load = find(language, namespace);
    if (!load) {
      done(new Error(`no texts for ${namespace} in ${language}`), null);
      return;
    }
    load().then(
      (module) => done(null, module.default as never),
      (error: Error) => done(error, null),
    );
  },
};

const key = "signalbox.language";

export function storedLanguage(): Language | null {
  try {
    return languageOf(localStorage.getItem(key));
  } catch {
    return null;
  }
}

// languageOf returns the language of the console for a tag such as zh-CN, or null.
export function languageOf(tag: string | null | undefined): Language | null {
  if (!tag) return null;
  const base = tag.toLowerCase().split(/[-_]/)[0];
  return base === "zh" || base === "en" ? base : null;
}

export function tagOf(language: string): string {
  return languages.find((l) => l.id === language)?.tag ?? "en";
}

export async function setLanguage(language: Language): Promise<void> {
  try {
    localStorage.setItem(key, language);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
  await i18next.changeLanguage(language);
}

export async function startTexts(): Promise<i18n> {
  const preferred = navigator.languages.map(languageOf).find((language) => language !== null);
  i18next.on("languageChanged", (language) => {
    document.documentElement.lang = tagOf(language);
  });
  await i18next
    .use(backend)
    .use(initReactI18next)
    .init({
      lng: storedLanguage() ?? preferred ?? "en",
      fallbackLng: "en",
      supportedLngs: ["en", "zh"],
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
