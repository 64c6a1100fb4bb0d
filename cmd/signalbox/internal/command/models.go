package command

import (
	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

func modelKind() kind {
	return kind{
		one: "model", many: "models", path: "/api/models", prefix: "mdl_", name: "name", search: "q", inProject: true,
		columns: []output.Column{
			{Name: "id"},
			{Name: "name"},
			{Name: "project"},
			{Name: "owner"},
			{Name: "latest", Path: "latest_version", Right: true},
			{Name: "aliases"},
			{Name: "task", Wide: true},
			{Name: "age", Path: "created_at", Right: true, As: output.Age},
		},
		details: []output.Column{{Name: "description"}, {Name: "created", Path: "created_at", As: output.Time}},
	}
}

func modelVersionKind() kind {
	return kind{one: "version", many: "versions", columns: []output.Column{
		{Name: "version", Right: true},
		{Name: "status"},
		{Name: "lifecycle"},
		{Name: "format"},
		{Name: "size", Path: "size_bytes", Right: true, As: output.Bytes},
		{Name: "run", Path: "source.run_id"},
		{Name: "digest", As: output.Short},
		{Name: "base", Wide: true},
		{Name: "pickle", Wide: true},
		{Name: "reason", Path: "status_reason", Wide: true},
		{Name: "id", Wide: true},
		{Name: "age", Path: "created_at", Right: true, As: output.Age},
	}, details: []output.Column{
		{Name: "ref"},
		{Name: "architecture", Path: "facts.architecture"},
		{Name: "parameters", Path: "facts.parameters"},
		{Name: "dtype", Path: "facts.dtype"},
		{Name: "adapter", Path: "facts.adapter_type"},
		{Name: "rank", Path: "facts.adapter_rank"},
		{Name: "protected"},
		{Name: "created", Path: "created_at", As: output.Time},
	}}
}

func (t *tool) models() *cobra.Command {
	k := modelKind()
	return noun("models", groupModels, "Models and their versions", "signalbox models ls\nsignalbox models import llama ./llama-3.2-1b\nsignalbox models versions my-model", []string{"model"},
		t.list(k, "List models", "signalbox models ls --search chat", filter{flag: "search", param: "q", usage: "only models whose name contains this text"}),
		t.getModel(),
		t.part(k, "versions", "versions", modelVersionKind(), "List the versions of a model", "signalbox models versions my-model -o wide"),
		t.update(k, "Change the description of a model", "signalbox models update my-model --description 'adds numbers'",
			field{flag: "description", usage: "what it is for"}),
		t.importModel(), t.registerModel(), t.pullModel(), t.alias(),
		t.part(k, "history", "history", kind{one: "change", many: "changes", columns: []output.Column{
			{Name: "at", As: output.Time},
			{Name: "action"},
			{Name: "version", Right: true},
			{Name: "before", Path: "previous_version", Right: true},
			{Name: "alias"},
			{Name: "actor"},
			{Name: "note"},
		}}, "List what was promoted, archived and renamed", "signalbox models history my-model"),
		t.card(),
		t.versionAct("promote", "Mark a version as the one to use", "signalbox models promote my-model@3"),
		t.versionAct("archive", "Mark a version as no longer used", "signalbox models archive my-model@1"),
		t.versionAct("unarchive", "Take a version out of the archive", "signalbox models unarchive my-model@1"),
		t.remove(k, "Delete a model with its versions", "signalbox models rm my-model"),
		t.open(k, "/models/", "signalbox models open my-model"),
	)
}
