// Shows the theme that the reader has chosen on the other pages of the documentation, or that of the system.
(() => {
  let stored = null
  try { stored = localStorage.getItem('starlight-theme') } catch { /* storage may be forbidden */ }
  const dark = stored ? stored === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  document.documentElement.dataset.theme = dark ? 'dark' : 'light'
})()
