package demo

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// linkTimeout is how long the server may take to create a sign-in link.
const linkTimeout = 15 * time.Second

// signInLink returns a link that signs in a browser on this machine and opens a page. If the server creates none, for example
// because other machines can reach it, signInLink returns the address of the page.
func signInLink(ctx context.Context, o Options, address, page string) string {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, o.Server, "link", "--data", o.Data, "--next", page).Output()
	if link := strings.TrimSpace(string(out)); err == nil && link != "" {
		return link + "  (signed in by this link, once, within 10 minutes)"
	}
	return address + page
}

// next prints the console's address, the login and commands to try.
func (d *demo) next(address string, p password, console string) {
	fmt.Fprintf(d.Out, `
  Console   %s
  API       %s/api
  Login     admin / %s   (%s)

  Next:     curl -s %s/inference/%s/v1/chat/completions \
              -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \
              -d '{"model":"default","temperature":0,"messages":[{"role":"user","content":"27+46?"}]}'
            bin/signalbox login --server %s   (approve it in a browser that is signed in)
            bin/signalbox metrics %s --plot
            bin/signalbox chat %s '27+46?'
  Stop:     Ctrl-C (everything is kept in %s)
`, console, address, p.text.Reveal(), p.note(), address, d.loop.Deployment.ID, d.loop.Token.Reveal(), address, d.loop.Name, d.loop.Name, d.Data)
}
