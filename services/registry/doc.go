// Package registry is the service that owns the recipe catalog, datasets, models, the deployments that serve
// models, environments, rubrics, and solutions with their applications. It promises that:
//
//   - stored bytes match their digests;
//   - a ready version never changes;
//   - a candidate revision never affects traffic;
//   - promotion switches traffic by changing a single row;
//   - before a revocation returns, every replica of inference that may still serve rejects the token.
//
// Its packages: recipe, codepackage, dataset, environment and rubric store what a training uses. ref parses references
// to these objects, and catalog resolves the references for jobs. model stores models, modelfile reads the headers of
// their files, and modelcard stores their cards. solution stores solutions and their applications. deployment, revision
// and deploytoken decide what is served. enginesync sends orders for engines to jobs, epoch numbers the changes, and
// snapshot sends them to inference. playground owns short sessions. transfer changes the owner of objects, clients
// calls the other services, and db contains the migrations and the wake-up topics.
package registry
