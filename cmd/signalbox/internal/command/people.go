package command

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

func projectKind() kind {
	return kind{
		one: "project", many: "projects", path: "/api/projects", prefix: "prj_", name: "key",
		columns: []output.Column{
			{Name: "key"},
			{Name: "name"},
			{Name: "visibility"},
			{Name: "id"},
			{Name: "team", Path: "team_id", Wide: true},
			{Name: "archived", Path: "archived_at", As: output.Time, Wide: true},
			{Name: "age", Path: "created_at", Right: true, As: output.Age},
		},
		details: []output.Column{{Name: "description"}},
	}
}

func teamKind() kind {
	return kind{
		one: "team", many: "teams", path: "/api/teams", prefix: "team_", name: "key",
		columns: []output.Column{
			{Name: "key"},
			{Name: "name"},
			{Name: "members", Path: "member_count", Right: true},
			{Name: "id"},
			{Name: "age", Path: "created_at", Right: true, As: output.Age},
		},
	}
}

func memberKind() kind {
	return kind{one: "member", many: "members", name: "username", columns: []output.Column{{Name: "username"}, {Name: "role"}}}
}

func (t *tool) projects() *cobra.Command {
	k := projectKind()
	return noun("projects", groupPeople, "Projects, and who may work in them", "signalbox projects ls\nsignalbox projects add-member search ada --role editor",
		[]string{"project"},
		t.list(k, "List projects", "signalbox projects ls"),
		t.get(k, "Show a project", "signalbox projects get search"),
		t.createProject(), t.updateProject(),
		t.part(k, "members", "members", memberKind(), "List the members of a project", "signalbox projects members search"),
		t.addMember(k, "viewer, editor or owner", "signalbox projects add-member search ada --role editor"),
		t.removeMember(k, "signalbox projects rm-member search ada -y"),
	)
}

func (t *tool) teams() *cobra.Command {
	k := teamKind()
	return noun("teams", groupPeople, "Teams and their members", "signalbox teams ls\nsignalbox teams add-member nlp ada", []string{"team"},
		t.list(k, "List teams", "signalbox teams ls"),
		t.get(k, "Show a team", "signalbox teams get nlp"),
		t.createTeam(), t.update(k, "Change the name of a team", "signalbox teams update nlp --name Language", field{flag: "name", usage: "name for people"}),
		t.teamMembers(),
		t.addMember(k, "member or lead", "signalbox teams add-member nlp ada --role lead"),
		t.removeMember(k, "signalbox teams rm-member nlp ada -y"),
		t.remove(k, "Delete a team", "signalbox teams rm nlp"),
	)
}

// create sends a new object and prints it.
func (t *tool) create(cmd *cobra.Command, k kind, body map[string]any) error {
	c, err := t.Client()
	if err != nil {
		return err
	}
	return t.send(cmd, c, http.MethodPost, k.path, body, t.showObject(k.columns))
}

func (t *tool) createProject() *cobra.Command {
	var name, description, team, visibility string
	cmd := &cobra.Command{
		Use: "create KEY", Short: "Create a project", Example: "signalbox projects create search --name 'Search quality' --team nlp", Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"key": args[0], "name": args[0], "visibility": visibility}
			if name != "" {
				body["name"] = name
			}
			if description != "" {
				body["description"] = description
			}
			if team != "" {
				c, err := t.Client()
				if err != nil {
					return err
				}
				if body["team_id"], err = t.id(cmd.Context(), c, teamKind(), team); err != nil {
					return err
				}
			}
			return t.create(cmd, projectKind(), body)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "name for people")
	f.StringVar(&description, "description", "", "what it is for")
	f.StringVar(&team, "team", "", "team to which it belongs")
	f.StringVar(&visibility, "visibility", "team", "who can see it: team or all")
	must(cmd.RegisterFlagCompletionFunc("team", t.completeFlag(teamKind())))
	return cmd
}

func (t *tool) updateProject() *cobra.Command {
	var name, description, visibility string
	var archived bool
	cmd := &cobra.Command{
		Use: "update PROJECT", Short: "Change a project", Example: "signalbox projects update search --visibility all", Args: arguments(1, 1),
		ValidArgsFunction: t.complete(projectKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			for flag, value := range map[string]any{"name": name, "description": description, "visibility": visibility, "archived": archived} {
				if cmd.Flags().Changed(flag) {
					body[flag] = value
				}
			}
			return t.patch(cmd, projectKind(), args[0], body)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "name for people")
	f.StringVar(&description, "description", "", "what it is for")
	f.StringVar(&visibility, "visibility", "", "who can see it: team or all")
	f.BoolVar(&archived, "archived", false, "archive the project; --archived=false takes it back")
	return cmd
}

func (t *tool) createTeam() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "create KEY", Short: "Create a team (admins)", Example: "signalbox teams create nlp --name 'Language'", Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"key": args[0], "name": args[0]}
			if name != "" {
				body["name"] = name
			}
			return t.create(cmd, teamKind(), body)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name for people")
	return cmd
}

// teamMembers lists the members of a team, which are a part of the team.
func (t *tool) teamMembers() *cobra.Command {
	k := teamKind()
	return &cobra.Command{
		Use: "members TEAM", Short: "List the members of a team", Example: "signalbox teams members nlp", Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			var team struct {
				Members []json.RawMessage `json:"members"`
			}
			if err := c.Get(cmd.Context(), k.at(id), nil, &team); err != nil {
				return err
			}
			p, err := t.Printer()
			if err != nil {
				return err
			}
			return t.rows(p, "members", memberKind().columns, team.Members)
		},
	}
}

func (t *tool) addMember(k kind, roles, example string) *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use: "add-member " + upper(k) + " USER", Short: "Add a member to a " + k.one + ", or change the role", Example: example,
		Args: arguments(2, 2), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			path := k.at(id, "members", args[1])
			if err := c.Do(cmd.Context(), http.MethodPut, path, map[string]any{"role": role}, nil); err != nil {
				return err
			}
			t.Say("%s is %s of the %s %s", args[1], role, k.one, args[0])
			return nil
		},
	}
	standard := "viewer"
	if k.one == "team" {
		standard = "member"
	}
	cmd.Flags().StringVar(&role, "role", standard, roles)
	return cmd
}

func (t *tool) removeMember(k kind, example string) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm-member " + upper(k) + " USER", Short: "Remove a member from a " + k.one, Example: example,
		Args: arguments(2, 2), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Remove %s from the %s %s?", args[1], k.one, args[0]); err != nil {
				return err
			}
			if err := c.Do(cmd.Context(), http.MethodDelete, k.at(id, "members", args[1]), nil, nil); err != nil {
				return err
			}
			t.Say("removed %s from the %s %s", args[1], k.one, args[0])
			return nil
		},
	}
	addYes(cmd, &yes)
	return cmd
}
