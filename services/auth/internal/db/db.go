// Package db holds the tables of the auth schema.
package db

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the goose files of this schema, in the root of the file system.
func Migrations() (fs.FS, error) { return fs.Sub(files, "migrations") }
