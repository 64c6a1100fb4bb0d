import { admin } from "@/screens/admin/area";
import { cluster } from "@/screens/cluster/area";
import { compare } from "@/screens/compare/area";
import { datasets } from "@/screens/datasets/area";
import { deployments } from "@/screens/deployments/area";
import { environments } from "@/screens/environments/area";
import { fleets } from "@/screens/fleets/area";
import { job } from "@/screens/job/area";
import { jobs } from "@/screens/jobs/area";
import { models } from "@/screens/models/area";
import { overview } from "@/screens/overview/area";
import { playground } from "@/screens/playground/area";
import { projects } from "@/screens/projects/area";
import { rubrics } from "@/screens/rubrics/area";
import { runs } from "@/screens/runs/area";
import { search } from "@/screens/search/area";
import { settings } from "@/screens/settings/area";
import { shares } from "@/screens/shares/area";
import { submit } from "@/screens/submit/area";
import { teams } from "@/screens/teams/area";

// All areas of the console, one line each. An area without a screen is not in the list.
export const areas = [
  overview,
  jobs,
  job,
  submit,
  runs,
  compare,
  projects,
  datasets,
  environments,
  rubrics,
  models,
  deployments,
  playground,
  cluster,
  fleets,
  teams,
  admin,
  search,
  settings,
  shares,
  // This comment keeps each area on a line of its own.
] as const;
