// Starts Scalar without anything that would call another host: no fonts, telemetry, proxy, agent or developer tools.
Scalar.createApiReference('#reference', {
  url: '/api/openapi.json',
  layout: 'classic',
  theme: 'none',
  defaultOpenAllTags: false,
  defaultOpenFirstTag: false,
  darkMode: document.documentElement.dataset.theme === 'dark',
  hideDarkModeToggle: true,
  withDefaultFonts: false,
  telemetry: false,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  documentDownloadType: 'direct',
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  authentication: { preferredSecurityScheme: 'accessToken' },
})
