package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// maxBody is the maximum size of the body of signalbox api, that of the server.
const maxBody = 8 << 20

func (t *tool) api() *cobra.Command {
	var file string
	var fields []string
	cmd := &cobra.Command{
		Use: "api METHOD PATH", GroupID: groupTool, Short: "Send any request of the REST API",
		Long: `Send any request of the REST API with your login, and print the response.

The path begins with /api. --field sets a member of the body: name=text, or name:=JSON for another value. --file sends a file as the
body; - is standard input. "signalbox explain" describes the objects.`,
		Example: `signalbox api GET "/api/jobs?state=running" --jq '.[].id'
signalbox api PATCH /api/profile --field tz=Europe/Berlin
signalbox api POST /api/jobs --file job.json`,
		Args: arguments(2, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			method, path := strings.ToUpper(args[0]), args[1]
			if !strings.HasPrefix(path, "/api/") && path != "/healthz" {
				return session.Usage("the path must begin with /api/, such as /api/jobs; signalbox api routes lists them")
			}
			body, err := t.body(file, fields)
			if err != nil {
				return err
			}
			c, err := t.Client()
			if err != nil {
				return err
			}
			if method == http.MethodGet && body == nil && streamed(path) {
				return c.Stream(cmd.Context(), path, nil, t.Out)
			}
			resp, err := c.Call(cmd.Context(), method, path, body)
			if err != nil {
				return err
			}
			return t.printResponse(resp)
		},
	}
	cmd.AddCommand(t.routes())
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the body as JSON; - reads standard input")
	cmd.Flags().StringArrayVar(&fields, "field", nil, "member of the body: name=text or name:=JSON")
	return cmd
}

// streamed reports whether the response of a route has no end or no bound: a stream of events, a log, an export.
func streamed(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	for _, end := range []string{"/stream", "/logs/download", "/metrics/export"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// body returns the body of a request, or nil.
func (t *tool) body(file string, fields []string) (any, error) {
	switch {
	case file != "" && len(fields) > 0:
		return nil, session.Usage("use either --file or --field")
	case file != "":
		raw, err := t.readFile(file, maxBody)
		if err != nil {
			return nil, err
		}
		if !json.Valid(raw) {
			return nil, session.Usage("%s is not JSON", file)
		}
		return json.RawMessage(raw), nil
	case len(fields) == 0:
		return nil, nil
	}
	members := map[string]any{}
	for _, f := range fields {
		if name, value, ok := strings.Cut(f, ":="); ok && !strings.Contains(name, "=") {
			if !json.Valid([]byte(value)) {
				return nil, session.Usage("--field %s: the value after := is not JSON", name)
			}
			members[name] = json.RawMessage(value)
			continue
		}
		name, value, ok := strings.Cut(f, "=")
		if !ok || name == "" {
			return nil, session.Usage("--field %q must be name=text or name:=JSON", f)
		}
		members[name] = value
	}
	return members, nil
}

// readFile reads a file of at most the given size; - is standard input.
func (t *tool) readFile(name string, most int64) ([]byte, error) {
	in := t.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, session.Usage("%s", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(raw)) > most {
		return nil, session.Usage("%s has more than %d bytes", name, most)
	}
	return raw, nil
}

// printResponse prints the response of any route. JSON is printed as with -o json unless another format is given; any
// other body is printed as it is.
func (t *tool) printResponse(resp *client.Response) error {
	if resp.Status < 200 || resp.Status > 299 {
		return resp.Err()
	}
	body := bytes.TrimSpace(resp.Body)
	if len(body) == 0 {
		return nil
	}
	if !json.Valid(body) {
		_, err := t.Out.Write(resp.Body)
		return err
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if p.Format.IsTable() {
		p.Format = "json"
	}
	if body[0] != '[' {
		return p.Object(nil, body)
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(body, &rows); err != nil {
		return err
	}
	return p.Rows(nil, rows)
}

func (t *tool) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", GroupID: groupTool, Short: "Show the versions of this program and of the server", Args: noArguments,
		Example: "signalbox version\nsignalbox version -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			server := map[string]any{}
			c, err := t.Anonymous()
			if err == nil {
				err = c.Get(cmd.Context(), "/api/version", nil, &server)
			}
			out := map[string]any{"client": t.Version, "server": server["server"], "core": server["core"], "api": server["api"]}
			raw, encodeErr := json.Marshal(out)
			if encodeErr != nil {
				return encodeErr
			}
			if printErr := t.print(versionColumns(), raw); printErr != nil {
				return printErr
			}
			if as[*session.LoginError](err) {
				return nil // no installation is chosen, and the version of this program does not need one
			}
			return err
		},
	}
}

func versionColumns() []output.Column {
	return []output.Column{{Name: "client"}, {Name: "server"}, {Name: "core"}, {Name: "api"}}
}
