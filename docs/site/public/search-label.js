// Names the search field for screen readers. Pagefind creates the field when the page is idle, with a title only.
const label = () => document.querySelector('.pagefind-ui__search-input')?.setAttribute('aria-label', 'Search')
new MutationObserver((_, observer) => {
  if (document.querySelector('.pagefind-ui__search-input')) observer.disconnect()
  label()
}).observe(document.body, { childList: true, subtree: true })
label()
