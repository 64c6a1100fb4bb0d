import { defineCollection } from 'astro:content'
import { docsSchema } from '@astrojs/starlight/schema'
import { repositoryLoader } from './loader.mjs'

export const collections = { docs: defineCollection({ loader: repositoryLoader(), schema: docsSchema() }) }
