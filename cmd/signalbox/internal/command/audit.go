package command

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

// AuditUsage is the help text of the command `audit`.
const AuditUsage = `usage: signalbox audit verify [--server URL] --token-file FILE

audit verify   Checks the audit of every service against its signed heads, prints each break, and fails if
               there is one. --token-file names a file with an admin's access token; - reads standard input.
`

// AuditOptions are the settings of a verification.
type AuditOptions struct {
	Server string
	Token  secret.String
	Out    io.Writer
}

// patience limits how long a verification may take, because the server reads every row of the audit.
const patience = 5 * time.Minute

// ErrAuditBroken reports that the audit was changed after it was written.
var ErrAuditBroken = errors.New("the audit is broken")

// ParseAudit reads the arguments after `audit`. It returns flag.ErrHelp if it has already printed the usage or the
// error of a flag.
func ParseAudit(args []string, in io.Reader, out, errOut io.Writer) (AuditOptions, error) {
	o := AuditOptions{Out: out}
	if len(args) == 0 || args[0] != "verify" {
		fmt.Fprint(errOut, AuditUsage)
		return o, flag.ErrHelp
	}
	f := flag.NewFlagSet("audit verify", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.Server, "server", "http://127.0.0.1:8080", "address of the installation")
	file := f.String("token-file", "", "file with an admin's access token; - reads standard input")
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
		return o, fmt.Errorf("%s contains no token", *file)
	}
	return o, nil
}

// maxToken is the maximum number of bytes that are read from a token file.
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

// report is the response of POST /api/admin/audit/verify.
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

// VerifyAudit has the server verify the audit and prints the result. It returns ErrAuditBroken if the audit is broken.
func VerifyAudit(ctx context.Context, o AuditOptions) error {
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
		why := "no reason given"
		if c.Fault != nil {
			why = *c.Fault
		}
		fmt.Fprintf(o.Out, "%-10s BROKEN: %s\n", c.Service, strings.ReplaceAll(why, "; ", "\n             "))
	}
	if !r.OK {
		return ErrAuditBroken
	}
	if len(r.Chains) == 0 {
		return errors.New("verify the audit: the response names no service")
	}
	return nil
}
