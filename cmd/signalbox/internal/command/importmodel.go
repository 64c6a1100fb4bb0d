package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

type importOptions struct {
	base, task, description string
	allowPickle, listFiles  bool
}

func (t *tool) importModel() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use: "import MODEL FOLDER|FILE", Short: "Upload files as a new version of a model", Args: arguments(2, 2),
		Long: `Upload a model as a version: a folder in the Hugging Face layout with safetensors files, a GGUF or safetensors file, or the folder of a PEFT
adapter. The model is created if it is missing. If it has the same files already, the version with them is shown.

Links to files are followed, as in the cache of a download. These are left out: hidden files and folders, the folders checkpoint-*, original and
__pycache__, and beside safetensors files the pickles training_args.bin, optimizer.pt, scheduler.pt, scaler.pt, rng_state*.pth,
pytorch_model*.bin, consolidated*.pth and adapter_model.bin. --list-files prints the files and sends nothing. Other pickles are refused, because
they can run any code on the machine that loads them; administrators can import them with --allow-pickle.

Files that were uploaded are kept for a day without a version, so an import that was interrupted continues when it is run again. If the headers
of the files are not valid, the version is rejected, and the exit status is 2.`,
		Example: `signalbox models import llama ./llama-3.2-1b --description 'the base of our adapters'
signalbox models import llama-q4 llama-3.2-1b-q4_k_m.gguf
signalbox models import sums-lora ./adapter --base llama@1
signalbox models import llama ./llama-3.2-1b --list-files`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault // files
			}
			return t.complete(modelKind())(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return t.runImport(cmd, args[0], args[1], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.base, "base", "", "version that an adapter belongs to: MODEL@VERSION")
	f.StringVar(&o.task, "task", "", "task of a new model: chat (by default), completion or embedding")
	f.StringVar(&o.description, "description", "", "description of a new model")
	f.BoolVar(&o.allowPickle, "allow-pickle", false, "accept files that are pickles; only for administrators")
	f.BoolVar(&o.listFiles, "list-files", false, "print the files and send nothing")
	must(cmd.RegisterFlagCompletionFunc("base", t.completeFlag(modelKind())))
	return cmd
}

func (t *tool) runImport(cmd *cobra.Command, model, path string, o importOptions) error {
	found, err := findModelFiles(path)
	if err != nil {
		return err
	}
	if o.listFiles {
		return errors.Join(t.listModel(found), found.check(model))
	}
	if err := found.check(model); err != nil {
		return err
	}
	c, err := t.Client()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if o.base != "" {
		if o.base, err = t.modelRef(ctx, c, o.base); err != nil {
			return err
		}
	}
	id, err := t.id(ctx, c, modelKind(), model)
	missing := as[*NotFoundError](err)
	if err != nil && !missing {
		return err
	}
	if !missing {
		if err := t.keepModel(ctx, c, id, o); err != nil {
			return err
		}
	}
	if text := found.leftOutText(); text != "" {
		t.Say("%s", text)
	}
	if err := t.measure(ctx, found.files); err != nil {
		return err
	}
	if missing {
		if id, err = t.createNamed(cmd, c, modelKind(), model, o.newModel()); err != nil {
			return err
		}
	}
	return t.sendModel(ctx, c, id, found.files, o)
}

// newModel returns the members of a new model.
func (o importOptions) newModel() map[string]any {
	more := map[string]any{}
	for member, value := range map[string]string{"task": o.task, "description": o.description} {
		if value != "" {
			more[member] = value
		}
	}
	return more
}

// keepModel returns an error if the flags describe another model than the one that exists.
func (t *tool) keepModel(ctx context.Context, c *client.Client, id string, o importOptions) error {
	if o.task == "" && o.description == "" {
		return nil
	}
	var m struct {
		Name        string `json:"name"`
		Task        string `json:"task"`
		Description string `json:"description"`
	}
	if err := c.Get(ctx, modelKind().at(id), nil, &m); err != nil {
		return err
	}
	switch {
	case o.task != "" && o.task != m.Task:
		return session.Usage("the model %s exists, and its task is %s; leave out --task, or import into a new model", m.Name, m.Task)
	case o.description != "" && o.description != m.Description:
		return session.Usage("the model %s exists; leave out --description, and change it with: signalbox models update %s --description TEXT", m.Name, m.Name)
	}
	return nil
}

// modelRef returns the reference of a version, mdl/PROJECT/NAME@NUMBER, which the user calls as in modelVersion or by a reference.
func (t *tool) modelRef(ctx context.Context, c *client.Client, called string) (string, error) {
	id, version, err := t.modelVersion(ctx, c, strings.TrimPrefix(called, "mdl/"))
	if err != nil {
		return "", err
	}
	var v struct {
		Ref string `json:"ref"`
	}
	err = c.Get(ctx, modelKind().at(id, "versions", strconv.Itoa(version)), nil, &v)
	return v.Ref, err
}

// sendModel uploads what is missing of a version, creates it and prints it.
func (t *tool) sendModel(ctx context.Context, c *client.Client, id string, files []localFile, o importOptions) error {
	err := t.uploadModel(ctx, c, id, files, o)
	var raw json.RawMessage
	if err == nil {
		raw, err = t.createVersion(ctx, c, id, files, o)
	}
	if err != nil {
		if ctx.Err() != nil || client.Retryable(err) {
			t.Say("to continue, run the same command again")
		}
		return o.explain(err)
	}
	return t.print(modelVersionKind().columns, raw)
}

func (t *tool) uploadModel(ctx context.Context, c *client.Client, id string, files []localFile, o importOptions) error {
	body := map[string]any{"files": manifest(files), "allow_pickle": o.allowPickle}
	begun := false
	return t.uploadMissing(ctx, c, files, func() ([]uploadTarget, error) {
		var signed struct {
			Format  string         `json:"format"`
			Uploads []uploadTarget `json:"uploads"`
		}
		if err := c.Post(ctx, modelKind().at(id, "uploads"), body, &signed); err != nil {
			return nil, err
		}
		if begun {
			return signed.Uploads, nil
		}
		begun = true
		switch adapter := signed.Format == "peft"; {
		case adapter && o.base == "":
			t.Say("this is an adapter; to state the version that it belongs to, import it with --base MODEL@VERSION")
		case !adapter && o.base != "":
			return nil, session.Usage("this is a model in the format %s; only adapters have a base, so leave out --base", signed.Format)
		}
		if have := distinct(files) - len(signed.Uploads); have > 0 && len(signed.Uploads) > 0 {
			t.Say("%d of the files are uploaded already", have)
		}
		return signed.Uploads, nil
	})
}

// distinct returns the number of files with different bytes. Each of them is uploaded once.
func distinct(files []localFile) int {
	sums := map[string]bool{}
	for _, f := range files {
		sums[f.sha256] = true
	}
	return len(sums)
}

// RejectedError reports a version of a model that the server has rejected.
type RejectedError struct{ Problem string }

// Error implements error.
func (e *RejectedError) Error() string { return e.Problem }

// createVersion creates a version of files that are uploaded.
func (t *tool) createVersion(ctx context.Context, c *client.Client, id string, files []localFile, o importOptions) (json.RawMessage, error) {
	body := map[string]any{"files": manifest(files), "base": o.base, "allow_pickle": o.allowPickle}
	resp, err := c.Call(ctx, http.MethodPost, modelKind().at(id, "versions"), body)
	if err != nil {
		return nil, err
	}
	if resp.Status != http.StatusOK && resp.Status != http.StatusCreated {
		return nil, resp.Err()
	}
	var v struct {
		Ref    string `json:"ref"`
		Status string `json:"status"`
		Reason string `json:"status_reason"`
		Base   string `json:"base"`
	}
	if err := json.Unmarshal(resp.Body, &v); err != nil {
		return nil, fmt.Errorf("decode the version: %w", err)
	}
	if v.Status == "rejected" {
		return nil, &RejectedError{fmt.Sprintf("%s was rejected: %s", v.Ref, v.Reason)}
	}
	if resp.Status == http.StatusOK {
		t.Say("the model has these files already, as %s", v.Ref)
		if o.base != "" && o.base != v.Base {
			t.Say("its base stays as it is, because versions do not change")
		}
	}
	return resp.Body, nil
}

// RemedyError is an error of the server, with what mends it.
type RemedyError struct {
	Remedy string

	err error
}

// Error implements error.
func (e *RemedyError) Error() string { return e.err.Error() }

// Unwrap returns the error of the server.
func (e *RemedyError) Unwrap() error { return e.err }

// explain adds to a refusal what mends it.
func (o importOptions) explain(err error) error {
	refused, ok := errors.AsType[*client.Error](err)
	switch {
	case ok && refused.Code == "pickle" && !o.allowPickle:
		return &RemedyError{Remedy: "an administrator can import it with --allow-pickle", err: err}
	case ok && refused.Status == http.StatusRequestEntityTooLarge && strings.Contains(refused.Detail, ggufExt+" "):
		return &RemedyError{Remedy: "import a smaller quantization, or let an administrator raise SERVICE_MAX_UPLOAD_MB", err: err}
	case ok && refused.Status == http.StatusRequestEntityTooLarge:
		return &RemedyError{
			Remedy: "save the model with a smaller max_shard_size, such as 2GB, or let an administrator raise SERVICE_MAX_UPLOAD_MB", err: err,
		}
	}
	return err
}

// getModel returns the command that shows a model or, with MODEL@VERSION, one of its versions.
func (t *tool) getModel() *cobra.Command {
	k := modelKind()
	cmd := t.get(k, "Show a model, or a version of it", "signalbox models get my-model\nsignalbox models get my-model@3")
	cmd.Use = "get MODEL[@VERSION|@ALIAS]"
	show := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !strings.Contains(args[0], "@") {
			return show(cmd, args)
		}
		c, at, err := t.modelVersionPath(cmd, args[0])
		if err != nil {
			return err
		}
		return t.printObject(cmd, c, modelVersionKind().all(), at)
	}
	return cmd
}
