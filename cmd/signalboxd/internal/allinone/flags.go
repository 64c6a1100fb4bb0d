package allinone

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/internal/version"
)

const usage = `usage: signalboxd [flags]                         serve until SIGTERM or Ctrl-C
       signalboxd stop [--works] [--data FOLDER]  stop the signalboxd that uses the folder; with --works, end jobs and engines too

Flags:
`

// nonEmpty returns the function of a flag that calls to with the value. It rejects empty values: they usually come from an
// unset shell variable.
func nonEmpty(what string, to func(value string)) func(string) error {
	return func(value string) error {
		if strings.TrimSpace(value) == "" {
			return errors.New("want " + what + ", got nothing")
		}
		to(value)
		return nil
	}
}

// Parse reads the command line. If done is true the process exits: the version was shown or err is set.
func Parse(args []string, out, errOut io.Writer) (o Options, done bool, err error) {
	o = Options{Out: out, Log: errOut, Flags: map[string]string{}}
	f := flag.NewFlagSet("signalboxd", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.Usage = func() {
		fmt.Fprint(errOut, usage)
		f.PrintDefaults()
	}
	f.Func("data", "folder for all data (SERVICE_DATA)", nonEmpty("a folder", func(v string) { o.Flags["SERVICE_DATA"] = v }))
	f.Func("listen", "address to serve on (SERVICE_LISTEN); port 0 picks a free port and reuses it, if possible, at each start on the same data folder", nonEmpty("host:port", func(v string) { o.Flags["SERVICE_LISTEN"] = v }))
	f.Func("ready-file", "file to write when the server is ready", nonEmpty("a file", func(v string) { o.ReadyFile = v }))
	f.BoolVar(&o.PrintConfig, "print-config", false, "show every setting, with secrets redacted, and exit")
	showVersion := f.Bool("version", false, "show the version and exit")
	if err := f.Parse(args); err != nil {
		return o, true, fmt.Errorf("parse the flags: %w", err)
	}
	if f.NArg() > 0 {
		return o, true, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if *showVersion {
		_, err := fmt.Fprintln(out, version.Server())
		return o, true, err
	}
	return o, false, nil
}
