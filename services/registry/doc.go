// Package registry is the service that owns the recipe catalog, datasets, models, the deployments that serve
// models, environments, rubrics, and solutions with their applications. It promises that:
//
//   - stored bytes match their digests;
//   - a ready version never changes;
//   - a candidate revision never affects traffic;
//   - promotion changes a single row;
//   - a revoked token has stopped working on every live replica of inference before the revocation returns.
//
// Its areas, in the order in which things pass them on their way to being served: recipe, codepackage, dataset,
// environment and rubric keep what a training uses, with ref for references; catalog resolves them for jobs. modelfile
// and modelcard read what model keeps. solution binds them to a project. deployment, revision and deploytoken decide
// what serves, enginesync orders the engines from jobs, epoch numbers the changes, and snapshot sends them to
// inference. playground keeps short sessions. transfer gives things to another owner, clients calls the other services,
// db holds the migrations and the wake-up topics.
package registry
