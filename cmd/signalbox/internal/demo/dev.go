package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// SampleName is the name of the dataset that Dev and a submission of the demo push.
const SampleName = "additions"

// Dev starts a server with sample data and serves until ctx is done. The function signedIn gets the address of the server
// and an access token of admin, and returns the words with which a command uses that login. If admin has another password
// than the one in the data folder, Dev pushes no sample data and does not call signedIn.
func Dev(ctx context.Context, o Options, signedIn func(address string, token secret.String) (string, error)) (err error) {
	held, err := occupy(o.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	fmt.Fprintf(o.Out, "starting a server with its data in %s\n", o.Data)
	password, err := keepPassword(o.Data)
	if err != nil {
		return err
	}
	server, err := start(ctx, o, password.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := held.SetAddress(server.Address); err != nil {
		return err
	}
	token, err := signIn(ctx, server.Address, password)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusUnauthorized {
		fmt.Fprintf(o.Out, `
  Console   %s
  Login     admin, with the password that you have chosen

  Next, in another terminal:
            %s login --server %s
  Stop:     Ctrl-C (everything is kept in %s)
`, server.Address, o.Program, server.Address, o.Data)
		return server.wait(ctx)
	}
	if err != nil {
		return server.explain(err)
	}
	sample, err := PushSample(ctx, &e2eflow.Loop{Client: client.New(server.Address, nil).With(token), Clock: o.Clock, Timeout: demoPatience})
	if err != nil {
		return server.explain(err)
	}
	command, err := signedIn(server.Address, token)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, `
  Console   %s
  Login     admin / %s   (%s)
  Data      %s, with the dataset %s

  Next, in another terminal:
            %[6]s run -- python train.py          run your own script, here train.py of the working folder
            %[6]s submit --demo --follow          train a tiny model, which takes about a minute
            %[6]s init --recipe demo/chat-tiny    write a job file to change
  Stop:     Ctrl-C (everything is kept)
`, signInLink(ctx, o, server.Address, "/"), password.text.Reveal(), password.note(), o.Data, sample.Ref, command)
	return server.wait(ctx)
}

// signIn returns an access token of admin.
func signIn(ctx context.Context, address string, p password) (secret.String, error) {
	var out struct {
		Token string `json:"token"`
	}
	body := map[string]string{"username": "admin", "password": p.text.Reveal()}
	if err := client.New(address, nil).Post(ctx, "/api/auth/login", body, &out); err != nil {
		return secret.String{}, fmt.Errorf("log in: %w", err)
	}
	return secret.New(out.Token), nil
}

// PushSample pushes the dataset on which the demo trains, unless the installation has it.
func PushSample(ctx context.Context, l *e2eflow.Loop) (e2eflow.Dataset, error) {
	rows, err := e2eflow.TwoDigits().Rows(demoSeed)
	if err != nil {
		return e2eflow.Dataset{}, err
	}
	l.Name = SampleName
	return l.EnsureDataset(ctx, "v1", SampleName+".jsonl", rows)
}

// SampleJob returns the spec of a job that trains on the dataset of PushSample. The seed gives the initial weights with which the
// model learns the task in half a minute.
func SampleJob(name string, dataset e2eflow.Dataset) map[string]any {
	return map[string]any{
		"name": name, "recipe": e2eflow.Recipe, "hparams": e2eflow.TwoDigits().Hparams, "seed": demoSeed,
		"bindings":  map[string]any{"datasets": map[string]any{"train": dataset.Ref}},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": "default"}}},
	}
}
