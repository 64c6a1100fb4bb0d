// Package audit is the command that has an installation's record of changes verified, over the API as any
// admin would. It ends with a failure where anything was edited, taken away, moved or put in, and where a
// service could not be asked.
package audit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Usage tells what can be typed.
const Usage = `usage: signalbox audit verify [--server URL] --token-file FILE

audit verify   walks the record of changes of every service against its signed heads, names each break,
               and fails where there is one; --token-file holds an admin's access token, - is the input
`

// Options are what a verification needs.
type Options struct {
	Server string
	Token  secret.String
	Out    io.Writer
}

// patience bounds a verification: it reads every row.
const patience = 5 * time.Minute

// ErrBroken says that the record is not what was written.
var ErrBroken = errors.New("the audit is broken")

// Parse reads the command line behind `audit`; flag.ErrHelp where it was answered already.
func Parse(args []string, in io.Reader, out, errOut io.Writer) (Options, error) {
	o := Options{Out: out}
	if len(args) == 0 || args[0] != "verify" {
		fmt.Fprint(errOut, Usage)
		return o, flag.ErrHelp
	}
	f := flag.NewFlagSet("audit verify", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.Server, "server", "http://127.0.0.1:8080", "address of the installation")
	file := f.String("token-file", "", "file with an admin's access token, - for the input")
	if err := f.Parse(args[1:]); err != nil {
		return o, flag.ErrHelp
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if *file == "" {
		return o, errors.New("--token-file must name a file with an admin's access token")
	}
	token, err := read(*file, in)
	if err != nil {
		return o, fmt.Errorf("read the token: %w", err)
	}
	if o.Token = token; token.IsZero() {
		return o, fmt.Errorf("%s holds no token", *file)
	}
	return o, nil
}

// maxToken is the longest token that is read.
const maxToken = 64 << 10

func read(file string, in io.Reader) (secret.String, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return secret.String{}, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxToken))
	return secret.New(strings.TrimSpace(string(raw))), err
}

// report is what the API answers.
type report struct {
	OK     bool `json:"ok"`
	Chains []struct {
		Service     string  `json:"service"`
		OK          bool    `json:"ok"`
		Rows        int64   `json:"rows"`
		Checkpoints int64   `json:"checkpoints"`
		Fault       *string `json:"fault"`
	} `json:"chains"`
}

// Verify has the record verified and tells what was found.
func Verify(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var r report
	if err := client.New(o.Server, nil).With(o.Token).Post(ctx, "/api/admin/audit/verify", map[string]any{}, &r); err != nil {
		return fmt.Errorf("verify the audit: %w", err)
	}
	for _, c := range r.Chains {
		if c.OK {
			fmt.Fprintf(o.Out, "%-10s ok: %d rows, %d signed heads\n", c.Service, c.Rows, c.Checkpoints)
			continue
		}
		why := "no reason was given"
		if c.Fault != nil {
			why = *c.Fault
		}
		fmt.Fprintf(o.Out, "%-10s BROKEN: %s\n", c.Service, strings.ReplaceAll(why, "; ", "\n             "))
	}
	if !r.OK {
		return ErrBroken
	}
	if len(r.Chains) == 0 {
		return errors.New("verify the audit: the answer names no service")
	}
	return nil
}
