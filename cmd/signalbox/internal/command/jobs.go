package command

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

func jobStates() []string {
	return []string{"queued", "scheduled", "starting", "running", "pausing", "paused", "stopping", "succeeded", "failed", "stopped"}
}

func jobFilters() []filter {
	return []filter{
		{flag: "state", param: "state", usage: "only jobs in this state", values: jobStates()},
		{flag: "owner", param: "owner", usage: "only jobs of this user; me for your own", user: true},
		{flag: "label", param: "label", usage: "only jobs with this label, key=value; can be repeated", many: true},
		{flag: "search", param: "q", usage: "only jobs whose name contains this text"},
		{flag: "since", param: "created_after", usage: "only jobs created from this time on, such as 2026-01-31 or 7d", when: true},
		{flag: "until", param: "created_before", usage: "only jobs created before this time", when: true},
	}
}

func (t *tool) jobs() *cobra.Command {
	k := jobKind()
	return noun("jobs", groupWork, "Jobs: what is queued, running and ended", "signalbox jobs ls --state running\nsignalbox jobs get my-job",
		[]string{"job"},
		t.list(k, "List jobs, newest first", "signalbox jobs ls\nsignalbox jobs ls --state running --owner me -o wide\nsignalbox jobs ls --label team=nlp -o name",
			jobFilters()...),
		t.getJob(),
		t.events(k, "signalbox jobs events my-job"),
		t.attempts(),
		t.submit("signalbox jobs submit"),
		t.logs("signalbox jobs logs"), t.wait(),
		t.stop(),
		t.act(k, "pause", "Pause a running job after its next checkpoint", "signalbox jobs pause my-job"),
		t.act(k, "resume", "Continue a paused job", "signalbox jobs resume my-job"),
		t.act(k, "retry", "Submit a job again, from its last checkpoint if it has one", "signalbox jobs retry my-job"),
		t.clone(),
		t.update(k, "Change the name, the priority or the labels of a job", "signalbox jobs update my-job --priority 80 --labels team=nlp,stage=test",
			field{flag: "name", usage: "new name"}, field{flag: "priority", usage: "0 to 100", number: true},
			field{flag: "labels", usage: "all labels, key=value with commas between them", labels: true}),
		t.remove(k, "Delete an ended job; its run stays", "signalbox jobs rm my-job -y"),
		t.open(k, "/jobs/", "signalbox jobs open my-job"),
	)
}

// ps is a shorter name of `jobs ls`.
func (t *tool) ps() *cobra.Command {
	cmd := t.list(jobKind(), "List jobs, newest first (jobs ls)", "signalbox ps\nsignalbox ps --state running", jobFilters()...)
	cmd.Use, cmd.Aliases, cmd.GroupID = "ps", nil, groupWork
	return cmd
}

func eventColumns() []output.Column {
	return []output.Column{
		{Name: "time", Path: "ts", As: output.Time},
		{Name: "type"},
		{Name: "from"},
		{Name: "to"},
		{Name: "reason"},
		{Name: "message"},
		{Name: "actor", Path: "actor_id", Wide: true},
		{Name: "seq", Wide: true, Right: true},
	}
}

// part returns a command that lists what belongs to an object: the rows of path below the object.
func (t *tool) part(k kind, verb, path string, rows kind, short, example string) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: verb + " " + upper(k), Short: short, Example: example, Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			return t.printList(cmd, c, rows, k.at(id, path), nil, limit)
		},
	}
	addLimit(cmd, &limit)
	return cmd
}

func (t *tool) events(k kind, example string) *cobra.Command {
	return t.part(k, "events", "events", kind{one: "event", many: "events", columns: eventColumns()}, "List what happened to a "+k.one, example)
}

// act returns a command that changes an object by a POST without a body.
func (t *tool) act(k kind, verb, short, example string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " " + upper(k), Short: short, Example: example, Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			return t.send(cmd, c, http.MethodPost, k.at(id, verb), map[string]any{}, t.showChange(k))
		},
	}
}

// changed prints an object after a change: as a table only its name and state, to standard error.
func (t *tool) changed(k kind, raw json.RawMessage) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if !p.ForPeople() {
		return p.Object(k.all(), raw)
	}
	found, ok := k.candidate(raw)
	if !ok {
		return p.Object(k.all(), raw)
	}
	state := ""
	if found.state != "" {
		state = ": " + found.state
	}
	t.Say("%s %s (%s)%s", k.one, output.Printable(found.name), found.id, state)
	return nil
}

func (t *tool) stop() *cobra.Command {
	k := jobKind()
	var force, yes bool
	cmd := &cobra.Command{
		Use: "stop JOB...", Short: "Stop jobs; they can be retried, but not resumed", Example: "signalbox jobs stop my-job -y", Args: arguments(1, maxNames),
		ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, ids, err := t.objects(cmd, k, args)
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Stop %s?", strings.Join(args, ", ")); err != nil {
				return err
			}
			for _, id := range ids {
				path := k.at(id, "stop")
				if force {
					path += "?force=true"
				}
				var raw json.RawMessage
				if err := c.Post(cmd.Context(), path, map[string]any{}, &raw); err != nil {
					return err
				}
				if err := t.changed(k, raw); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "kill its processes at once, without time for a checkpoint")
	addYes(cmd, &yes)
	return cmd
}

func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask")
}

func (t *tool) clone() *cobra.Command {
	k := jobKind()
	var name string
	var hparams []string
	var priority, seed int64
	cmd := &cobra.Command{
		Use: "clone JOB", Short: "Submit a copy of a job, with changes", Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		Example: "signalbox jobs clone my-job --name my-job-2 --hparam optim.lr=0.001 --seed 7",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			body := map[string]any{}
			for flag, value := range map[string]any{"name": name, "priority": priority, "seed": seed} {
				if cmd.Flags().Changed(flag) {
					body[flag] = value
				}
			}
			if chosen := t.Flags.Project; chosen != "" {
				body["project"] = chosen
			}
			if len(hparams) > 0 {
				if body["hparams"], err = assignments("hparam", hparams); err != nil {
					return err
				}
			}
			return t.send(cmd, c, http.MethodPost, k.at(id, "clone"), body, t.showObject(k.columns))
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "name of the copy")
	f.StringArrayVar(&hparams, "hparam", nil, "hyperparameter to change: key=value; can be repeated")
	f.Int64Var(&priority, "priority", 0, "priority of the copy, 0 to 100")
	f.Int64Var(&seed, "seed", 0, "seed of the copy")
	return cmd
}

// assignments returns the members that a flag sets: key=value each. A value that is JSON, such as 0.1 or true, is that
// value; any other is a text.
func assignments(flag string, texts []string) (map[string]any, error) {
	out := map[string]any{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, session.Usage("--%s %q must be key=value", flag, text)
		}
		if json.Valid([]byte(value)) {
			out[key] = json.RawMessage(value)
		} else {
			out[key] = value
		}
	}
	return out, nil
}

// remove returns the command rm of a kind.
func (t *tool) remove(k kind, short, example string) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm " + upper(k) + "...", Aliases: []string{"delete"}, Short: short, Example: example, Args: arguments(1, maxNames),
		ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, ids, err := t.objects(cmd, k, args)
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Delete the %s %s for good?", k.named(len(args)), strings.Join(args, ", ")); err != nil {
				return err
			}
			for i, id := range ids {
				if err := c.Do(cmd.Context(), http.MethodDelete, k.at(id), nil, nil); err != nil {
					return err
				}
				t.Say("deleted the %s %s", k.one, args[i])
			}
			return nil
		},
	}
	addYes(cmd, &yes)
	return cmd
}

// open returns a command that prints the address of an object's page in the console, and opens it on a terminal.
func (t *tool) open(k kind, page, example string) *cobra.Command {
	return &cobra.Command{
		Use: "open " + upper(k), Short: "Print the address of the page of a " + k.one + ", and open it on a terminal", Example: example,
		Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			return t.showPage(c.Base() + page + url.PathEscape(id))
		},
	}
}

func (t *tool) showPage(address string) error {
	if _, err := t.Out.Write([]byte(address + "\n")); err != nil {
		return err
	}
	if !t.OutTerminal || t.NoInput {
		return nil
	}
	if err := t.OpenBrowser(address); err != nil {
		t.Say("no browser was opened: %s", err)
	}
	return nil
}

// errNoChange is the usage error of a change without a flag.
func errNoChange() error {
	return session.Usage("nothing is to be changed; see --help for what can be")
}
