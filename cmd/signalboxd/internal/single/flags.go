package single

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/internal/version"
)

// Parse reads the command line. done tells that there is nothing left to do: the version was shown.
func Parse(args []string, out, errOut io.Writer) (o Options, done bool, err error) {
	o = Options{Out: out, Log: errOut, Flags: map[string]string{}}
	f := flag.NewFlagSet("signalboxd", flag.ContinueOnError)
	f.SetOutput(errOut)
	// Who hands over nothing meant something that is not there, a variable that is not set most likely.
	set := func(what string, to func(value string)) func(string) error {
		return func(value string) error {
			if strings.TrimSpace(value) == "" {
				return errors.New("want " + what + ", got nothing")
			}
			to(value)
			return nil
		}
	}
	f.Func("data", "folder that keeps everything (SERVICE_DATA)", set("a folder", func(v string) { o.Flags["SERVICE_DATA"] = v }))
	f.Func("listen", "address to serve on (SERVICE_LISTEN); port 0 is a free one, the same again at each start over the data folder where it can be had", set("host:port", func(v string) { o.Flags["SERVICE_LISTEN"] = v }))
	f.Func("ready-file", "file to write once it serves", set("a file", func(v string) { o.ReadyFile = v }))
	f.BoolVar(&o.PrintConfig, "print-config", false, "show every setting, redacted, and end")
	showVersion := f.Bool("version", false, "show the version and end")
	if err := f.Parse(args); err != nil {
		return o, true, fmt.Errorf("read the flags: %w", err)
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
