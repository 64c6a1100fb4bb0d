package main

import (
	"context"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func load(ctx context.Context, file string, variables []string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithEnv(variables), cli.WithConsistency(true))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(ctx)
}

func write(project *types.Project) error {
	raw, err := project.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(raw, '\n'))
	return err
}
