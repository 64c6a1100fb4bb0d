package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func deploymentKind() kind {
	return kind{
		one: "deployment", many: "deployments", path: "/api/model-deployments", prefix: "dep_", name: "name", search: "q", inProject: true,
		columns: []output.Column{
			{Name: "id"},
			{Name: "name"},
			{Name: "state"},
			{Name: "ready"},
			{Name: "project"},
			{Name: "owner", Wide: true},
			{Name: "revision", Path: "promoted_revision", Right: true},
			{Name: "pending", Path: "pending_revision", Right: true, Wide: true},
			{Name: "url", Wide: true},
			{Name: "age", Path: "created_at", Right: true, As: output.Age},
		},
		details: []output.Column{{Name: "description"}, {Name: "reason", Path: "reason.message"}, {Name: "created", Path: "created_at", As: output.Time}},
	}
}

func revisionKind() kind {
	return kind{one: "revision", many: "revisions", name: "number", columns: []output.Column{
		{Name: "number", Right: true},
		{Name: "state"},
		{Name: "ready"},
		{Name: "model", Path: "source.model_id"},
		{Name: "version", Path: "source.version", Right: true},
		{Name: "engine", Path: "serving.engine"},
		{Name: "reason", Path: "reason.message"},
		{Name: "pool", Path: "serving.pool", Wide: true},
		{Name: "id", Wide: true},
		{Name: "age", Path: "created_at", Right: true, As: output.Age},
	}}
}

func (t *tool) deployments() *cobra.Command {
	k := deploymentKind()
	return noun("deployments", groupModels, "Deployments: models that are called",
		"signalbox deployments ls\nsignalbox deployments create my-bot --model my-model --promote", []string{"deployment", "dep"},
		t.list(k, "List deployments", "signalbox deployments ls -o wide", filter{flag: "search", param: "q", usage: "only deployments whose name contains this text"}),
		t.get(k, "Show a deployment", "signalbox deployments get my-bot"),
		t.update(k, "Change the description of a deployment", "signalbox deployments update my-bot --description 'adds numbers'",
			field{flag: "description", usage: "what it is for"}),
		t.createDeployment(), t.revise(),
		t.revisionAct("start", "Start the engine of a revision again", revisionKind().columns),
		t.revisionAct("stop", "Stop the engine of a revision that is not promoted", revisionKind().columns),
		t.revisionAct("promote", "Send all calls to a revision that is ready", k.columns), t.rollback(), t.suspend(),
		t.act(k, "resume", "Serve calls again after a suspension", "signalbox deployments resume my-bot"),
		t.part(k, "revisions", "revisions", revisionKind(), "List the revisions of a deployment", "signalbox deployments revisions my-bot"),
		t.events(k, "signalbox deployments events my-bot"),
		t.traffic(), t.tokens(),
		t.remove(k, "Delete a deployment; its callers are refused at once", "signalbox deployments rm my-bot"),
		t.open(k, "/deployments/", "signalbox deployments open my-bot"),
	)
}

// maxRequirements is the maximum size of the requirements of an engine, that of the server.
const maxRequirements = 1 << 20

// servingOptions are the flags of a new revision.
type servingOptions struct {
	model, engine, pool string
	requirements        string
	gpus                int
	args, command       []string
	firstByte, idle     time.Duration
	wait, promote       bool
}

func (o *servingOptions) flags(cmd *cobra.Command, t *tool) {
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "", "model to serve: MODEL, MODEL@VERSION or MODEL@ALIAS; its newest version by default")
	f.StringVar(&o.engine, "engine", "", "engine: llamacpp for gguf, transformers for safetensors, or command; the one for the version's format by default")
	f.StringVar(&o.pool, "pool", "", "pool of nodes to serve on")
	f.IntVar(&o.gpus, "gpus", 0, "number of GPUs")
	f.StringArrayVar(&o.args, "arg", nil, "argument for the engine; can be repeated")
	f.StringArrayVar(&o.command, "command", nil, "command of the engine command, word by word; can be repeated")
	f.StringVar(&o.requirements, "requirements", "", "file with the Python packages of the engine command, pinned with their hashes")
	f.DurationVar(&o.firstByte, "first-byte", 0, "how long calls wait until the engine begins its response, from 1s to 1h; the server's setting if it is 0")
	f.DurationVar(&o.idle, "idle", 0, "how long calls wait while the engine pauses within its response, from 1s to 1h; the server's setting if it is 0")
	f.BoolVar(&o.wait, "wait", false, "wait until the revision is ready or has failed")
	f.BoolVar(&o.promote, "promote", false, "wait until the revision is ready, and send it all calls")
	must(cmd.RegisterFlagCompletionFunc("model", t.completeFlag(modelKind())))
	must(cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions([]string{"llamacpp", "transformers", "command"}, cobra.ShellCompDirectiveNoFileComp)))
}

// body returns the request for a revision.
func (t *tool) revisionBody(cmd *cobra.Command, c *client.Client, o servingOptions) (map[string]any, error) {
	if o.model == "" {
		return nil, session.Usage("--model must name the model to serve")
	}
	id, version, err := t.modelVersion(cmd.Context(), c, o.model)
	if err != nil {
		return nil, err
	}
	serving := map[string]any{}
	for member, value := range map[string]string{"engine": o.engine, "pool": o.pool} {
		if value != "" {
			serving[member] = value
		}
	}
	for member, values := range map[string][]string{"args": o.args, "command": o.command} {
		if len(values) > 0 {
			serving[member] = values
		}
	}
	if o.gpus > 0 {
		serving["gpus"] = o.gpus
	}
	if o.requirements != "" {
		lock, err := t.readFile(o.requirements, maxRequirements)
		if err != nil {
			return nil, err
		}
		serving["requirements"] = string(lock)
	}
	timeouts := map[string]any{}
	for member, wait := range map[string]time.Duration{"first_byte_s": o.firstByte, "idle_s": o.idle} {
		switch {
		case wait%time.Second != 0 || wait < 0:
			return nil, session.Usage("--first-byte and --idle must be whole seconds, such as 90s or 30m")
		case wait > 0:
			timeouts[member] = int(wait / time.Second)
		}
	}
	if len(timeouts) > 0 {
		serving["timeouts"] = timeouts
	}
	return map[string]any{"source": map[string]any{"model_id": id, "version": version}, "serving": serving}, nil
}

func (t *tool) createDeployment() *cobra.Command {
	var o servingOptions
	var description string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a deployment, with its first revision if --model is given", Args: arguments(1, 1),
		Example: "signalbox deployments create my-bot --model my-model --promote\nsignalbox deployments create my-bot",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			var revision map[string]any
			if o.model != "" {
				if revision, err = t.revisionBody(cmd, c, o); err != nil {
					return err
				}
			}
			body, err := t.inProject(args[0])
			if err != nil {
				return err
			}
			if description != "" {
				body["description"] = description
			}
			var raw json.RawMessage
			if err := c.Post(cmd.Context(), deploymentKind().path, body, &raw); err != nil {
				return err
			}
			if revision == nil {
				return t.print(deploymentKind().columns, raw)
			}
			made, _ := deploymentKind().candidate(raw)
			path := deploymentKind().at(made.id)
			first, err := t.postRevision(cmd, c, path, revision)
			if err != nil {
				t.Say("the deployment %s exists now, without a revision; add one: signalbox deployments revise %s --model MODEL", args[0], args[0])
				return err
			}
			return t.followRevision(cmd, c, made, first, o)
		},
	}
	o.flags(cmd, t)
	cmd.Flags().StringVar(&description, "description", "", "what it is for")
	return cmd
}

// inProject returns the first members of a new object: its name and its project.
func (t *tool) inProject(called string) (map[string]any, error) {
	chosen, err := t.Settings()
	if err != nil {
		return nil, err
	}
	body := map[string]any{"name": called}
	project, name, ok := strings.Cut(called, "/")
	switch {
	case ok:
		body["name"], body["project"] = name, project
	case chosen.Project != "":
		body["project"] = chosen.Project
	}
	return body, nil
}

func (t *tool) revise() *cobra.Command {
	var o servingOptions
	k := deploymentKind()
	cmd := &cobra.Command{
		Use: "revise DEPLOYMENT", Short: "Add a revision: another version of a model, or other settings", Args: arguments(1, 1),
		Long: `Add a revision to a deployment and prepare it. Calls go to it only after its promotion ("deployments promote", or --promote here).`,
		Example: `signalbox deployments revise my-bot --model my-model@2 --wait
signalbox deployments revise my-bot --model my-model --promote`,
		ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			body, err := t.revisionBody(cmd, c, o)
			if err != nil {
				return err
			}
			return t.addRevision(cmd, c, candidate{id: id, name: args[0]}, body, o)
		},
	}
	o.flags(cmd, t)
	return cmd
}

// revision is what a wait looks at.
type revision struct {
	Number int    `json:"number"`
	State  string `json:"state"`
	Ready  bool   `json:"ready"`
	Reason *struct {
		Message string `json:"message"`
	} `json:"reason"`
}

// addRevision creates a revision, waits for it and promotes it, as the flags state.
func (t *tool) addRevision(cmd *cobra.Command, c *client.Client, deployment candidate, body map[string]any, o servingOptions) error {
	raw, err := t.postRevision(cmd, c, deploymentKind().at(deployment.id), body)
	if err != nil {
		return err
	}
	return t.followRevision(cmd, c, deployment, raw, o)
}

// postRevision creates a revision of the deployment with a path.
func (t *tool) postRevision(cmd *cobra.Command, c *client.Client, path string, body map[string]any) (raw json.RawMessage, err error) {
	err = c.Post(cmd.Context(), path+"/revisions", body, &raw)
	return raw, err
}

// followRevision waits for a revision that was created and promotes it, as far as the options state, and prints the result.
func (t *tool) followRevision(cmd *cobra.Command, c *client.Client, deployment candidate, raw json.RawMessage, o servingOptions) error {
	path := deploymentKind().at(deployment.id)
	var made revision
	if err := json.Unmarshal(raw, &made); err != nil {
		return fmt.Errorf("decode the revision: %w", err)
	}
	t.Say("revision %d of %s is being prepared", made.Number, deployment.name)
	if o.wait || o.promote {
		var err error
		if raw, err = t.awaitRevision(cmd, c, path, made.Number); err != nil {
			return err
		}
	}
	if !o.promote {
		return t.print(revisionKind().columns, raw)
	}
	if err := c.Post(cmd.Context(), path+"/revisions/"+strconv.Itoa(made.Number)+"/promote", nil, &raw); err != nil {
		return err
	}
	return t.print(deploymentKind().columns, raw)
}

// revisionAct returns a command that changes a revision, and shows the columns of the response.
func (t *tool) revisionAct(verb, short string, columns []output.Column) *cobra.Command {
	k := deploymentKind()
	return &cobra.Command{
		Use: verb + " DEPLOYMENT REVISION", Short: short, Example: "signalbox deployments " + verb + " my-bot 1", Args: arguments(2, 2),
		ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.postPart(cmd, k, args, "revisions", verb, columns)
		},
	}
}

func (t *tool) rollback() *cobra.Command {
	k := deploymentKind()
	var to int
	var start bool
	cmd := &cobra.Command{
		Use: "rollback DEPLOYMENT", Short: "Send all calls to the revision before, or to another one", Args: arguments(1, 1),
		Example: "signalbox deployments rollback my-bot\nsignalbox deployments rollback my-bot --to 1 --start", ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			body := map[string]any{"start": start}
			if to > 0 {
				body["to_revision"] = to
			}
			return t.send(cmd, c, http.MethodPost, k.at(id, "rollback"), body, t.showObject(k.columns))
		},
	}
	cmd.Flags().IntVar(&to, "to", 0, "number of the revision; the one promoted before by default")
	cmd.Flags().BoolVar(&start, "start", false, "start the revision first if it is stopped")
	return cmd
}

func (t *tool) suspend() *cobra.Command {
	k := deploymentKind()
	var mode string
	var yes bool
	cmd := &cobra.Command{
		Use: "suspend DEPLOYMENT", Short: "Stop serving calls; new ones get 503", Example: "signalbox deployments suspend my-bot --mode drain -y",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Suspend %s? Its callers get 503.", args[0]); err != nil {
				return err
			}
			body := map[string]any{}
			if mode != "" {
				body["mode"] = mode
			}
			return t.send(cmd, c, http.MethodPost, k.at(id, "suspend"), body, t.showChange(k))
		},
	}
	cmd.Flags().StringVar(&mode, "mode", "", "drain lets running calls end, cut ends them")
	must(cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"drain", "cut"}, cobra.ShellCompDirectiveNoFileComp)))
	addYes(cmd, &yes)
	return cmd
}
