package command

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func rubricKind() kind {
	return kind{
		one: "rubric", many: "rubrics", path: "/api/rubrics", prefix: "rub_", name: "name", search: "q", inProject: true,
		columns: []output.Column{
			{Name: "id"},
			{Name: "name"},
			{Name: "project"},
			{Name: "owner"},
			{Name: "version", Path: "current_version", Right: true},
			{Name: "age", Path: "created_at", Right: true, As: output.Age},
		},
		details: []output.Column{{Name: "description"}, {Name: "visibility"}},
	}
}

func (t *tool) rubrics() *cobra.Command {
	k := rubricKind()
	versions := kind{one: "version", many: "versions", columns: []output.Column{
		{Name: "version", Right: true},
		{Name: "status"},
		{Name: "criteria", Path: "content.criteria", Right: true, As: output.Count},
		{Name: "ref"},
		{Name: "digest", As: output.Short, Wide: true},
		{Name: "age", Path: "created_at", Right: true, As: output.Age},
	}}
	return noun("rubrics", groupModels, "Rubrics: how responses are judged", "signalbox rubrics ls\nsignalbox rubrics push helpful --file rubric.yaml",
		[]string{"rubric"},
		t.list(k, "List rubrics", "signalbox rubrics ls", nameFilter("rubrics")),
		t.get(k, "Show a rubric", "signalbox rubrics get helpful"),
		t.part(k, "versions", "versions", versions, "List the versions of a rubric", "signalbox rubrics versions helpful"),
		t.pushRubric(), t.publishRubric(),
	)
}

func nameFilter(many string) filter {
	return filter{flag: "search", param: "q", usage: "only " + many + " whose name contains this text"}
}

func (t *tool) pushRubric() *cobra.Command {
	var file string
	k := rubricKind()
	cmd := &cobra.Command{
		Use: "push RUBRIC", Short: "Add a version to a rubric, which is created if it is missing", Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		Long:    `Add a version with the content of a file in YAML or JSON ("signalbox explain rubriccontent"). The rubric is created if it is missing.`,
		Example: "signalbox rubrics push helpful --file rubric.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return session.Usage("--file must name a file with the content, or - for standard input")
			}
			_, content, err := t.readDocument(file)
			if err != nil {
				return err
			}
			c, err := t.Client()
			if err != nil {
				return err
			}
			id, err := t.id(cmd.Context(), c, k, args[0])
			if as[*NotFoundError](err) {
				id, err = t.createNamed(cmd, c, k, args[0], nil)
			}
			if err != nil {
				return err
			}
			return t.send(cmd, c, http.MethodPost, k.at(id, "versions"), map[string]any{"content": content}, t.showObject([]output.Column{{Name: "ref"}, {Name: "version"}, {Name: "status"}, {Name: "digest"}}))
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the content; - reads standard input")
	return cmd
}

func (t *tool) publishRubric() *cobra.Command {
	k := rubricKind()
	return &cobra.Command{
		Use: "publish RUBRIC VERSION", Short: "Publish a version of a rubric, so that jobs can use it", Example: "signalbox rubrics publish helpful 1",
		Args: arguments(2, 2), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.postPart(cmd, k, args, "versions", "publish", []output.Column{{Name: "ref"}, {Name: "version"}, {Name: "status"}})
		},
	}
}

// postPart changes a numbered part of an object, such as a version, by a POST, and prints it.
func (t *tool) postPart(cmd *cobra.Command, k kind, args []string, parts, verb string, columns []output.Column) error {
	number, err := strconv.Atoi(args[1])
	if err != nil || number < 1 {
		return session.Usage("%q is not a number, as signalbox %s %s lists them", args[1], k.many, parts)
	}
	c, id, err := t.object(cmd, k, args[0])
	if err != nil {
		return err
	}
	return t.send(cmd, c, http.MethodPost, k.at(id, parts, strconv.Itoa(number), verb), map[string]any{}, t.showObject(columns))
}

func environmentKind() kind {
	return kind{
		one: "environment", many: "environments", path: "/api/environments", prefix: "env_", name: "name", search: "q", inProject: true,
		columns: []output.Column{
			{Name: "id"},
			{Name: "name"},
			{Name: "project"},
			{Name: "owner"},
			{Name: "latest", Path: "latest_version"},
			{Name: "age", Path: "created_at", Right: true, As: output.Age},
		},
		details: []output.Column{{Name: "description"}, {Name: "visibility"}},
	}
}

func (t *tool) environments() *cobra.Command {
	k := environmentKind()
	versions := kind{one: "version", many: "versions", columns: []output.Column{
		{Name: "version"},
		{Name: "state"},
		{Name: "ref"},
		{Name: "reason"},
		{Name: "digest", As: output.Short, Wide: true},
		{Name: "age", Path: "created_at", Right: true, As: output.Age},
	}}
	return noun("environments", groupModels, "Environments: tasks with which agents are evaluated", "signalbox environments ls", []string{"envs"},
		t.list(k, "List environments", "signalbox environments ls", nameFilter("environments")),
		t.get(k, "Show an environment", "signalbox environments get sums"),
		t.part(k, "versions", "versions", versions, "List the versions of an environment", "signalbox environments versions sums"),
		t.remove(k, "Delete an environment", "signalbox environments rm sums"),
	)
}

func (t *tool) evaluations() *cobra.Command {
	return noun("evaluations", groupModels, "Evaluations of agents", "signalbox evaluations get my-run", []string{"evaluation"},
		t.getEvaluation(), t.evaluationItems())
}

// evaluation returns a client, and the path of the evaluation of a run.
func (t *tool) evaluation(cmd *cobra.Command, called string) (*client.Client, string, error) {
	c, id, err := t.sourceOf(cmd, called)
	if err != nil {
		return nil, "", err
	}
	id, err = t.runOf(cmd, c, id)
	return c, "/api/agent-evaluations/" + url.PathEscape(id), err
}

func (t *tool) getEvaluation() *cobra.Command {
	return &cobra.Command{
		Use: "get JOB|RUN", Aliases: []string{"show"}, Short: "Show the result of an evaluation", Example: "signalbox evaluations get my-run",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(runKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, path, err := t.evaluation(cmd, args[0])
			if err != nil {
				return err
			}
			columns := []output.Column{
				{Name: "state"},
				{Name: "benchmark", Path: "benchmark.name"},
				{Name: "tasks", Path: "tasks_total"},
				{Name: "completed", Path: "tasks_completed"},
				{Name: "errors", Path: "tasks_errored"},
				{Name: "reward", Path: "reward.mean", As: output.Number},
				{Name: "pass_at"},
				{Name: "started", Path: "started_at", As: output.Time},
				{Name: "finished", Path: "finished_at", As: output.Time},
			}
			return t.printObject(cmd, c, columns, path)
		},
	}
}

func (t *tool) evaluationItems() *cobra.Command {
	items := kind{one: "item", many: "items", columns: []output.Column{
		{Name: "task"},
		{Name: "rollout", Right: true},
		{Name: "reward", Right: true, As: output.Number},
		{Name: "passed"},
		{Name: "masked", Wide: true},
		{Name: "turns", Right: true},
		{Name: "seconds", Right: true, As: output.Number},
		{Name: "stop"},
		{Name: "error"},
		{Name: "group", Wide: true},
	}}
	var limit int
	cmd := &cobra.Command{
		Use: "items JOB|RUN", Short: "List the results of an evaluation, task by task", Example: "signalbox evaluations items my-run -o jsonl",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(runKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, path, err := t.evaluation(cmd, args[0])
			if err != nil {
				return err
			}
			return t.printList(cmd, c, items, path+"/items", nil, limit)
		},
	}
	addLimit(cmd, &limit)
	return cmd
}

func (t *tool) playground() *cobra.Command {
	k := kind{
		one: "session", many: "sessions", lister: "playground ls", path: "/api/playground/sessions", prefix: "pg_", name: "title", inProject: true,
		columns: []output.Column{
			{Name: "id"},
			{Name: "title"},
			{Name: "state"},
			{Name: "project"},
			{Name: "owner"},
			{Name: "targets", Right: true, As: output.Count},
			{Name: "expires", Path: "expires_at", Right: true, As: output.Age},
		},
		details: []output.Column{{Name: "reason"}, {Name: "ended", Path: "ended_at", As: output.Time}},
	}
	stop := t.remove(k, "End a session and its engines", "signalbox playground stop my-session -y")
	stop.Use, stop.Aliases = "stop SESSION", nil
	return noun("playground", groupModels, "Sessions in which models are tried without a deployment", "signalbox playground ls", nil,
		t.list(k, "List sessions", "signalbox playground ls"), t.get(k, "Show a session", "signalbox playground get my-session"), stop,
		t.open(k, "/playground/", "signalbox playground open my-session"))
}
