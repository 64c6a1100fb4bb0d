package route

import (
	"encoding/json"
	"os"
)

// Table returns the route table that the generator would write for the access options in the file named by WIDEN.
func Table() []Route {
	raw, err := os.ReadFile(os.Getenv("WIDEN"))
	if err != nil {
		panic(err)
	}
	changed := map[string]struct{ Credential, Role string }{}
	if err := json.Unmarshal(raw, &changed); err != nil {
		panic(err)
	}
	rows := table()
	for i, r := range rows {
		if option, ok := changed[r.RPC]; ok && r.RPC != "" {
			rows[i].Credential = map[string]string{"CREDENTIAL_NONE": "none", "CREDENTIAL_USER": "user"}[option.Credential]
			rows[i].Role = map[string]string{"ROLE_OPERATOR": "operator", "ROLE_ADMIN": "admin"}[option.Role]
		}
	}
	return rows
}
