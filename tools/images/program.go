package main

// program is a program that gets an image.
type program struct {
	name, title, description string
}

// programs returns the programs of the control plane. The agent has no image: it isolates works with the means of its
// host.
func programs() []program {
	return []program{
		{"authd", "Signalbox auth", "users, tokens, teams and projects"},
		{"jobsd", "Signalbox jobs", "jobs, fleets and the scheduler"},
		{"ingestd", "Signalbox ingest", "metrics, logs and files that runs report"},
		{"registryd", "Signalbox registry", "models, datasets and deployments"},
		{"inferenced", "Signalbox inference", "calls to deployed models and their records"},
		{"gatewayd", "Signalbox gateway", "the public API, the console and the documentation"},
		{"signalbox-setup", "Signalbox setup", "certificates, secrets and the database of an installation"},
	}
}
