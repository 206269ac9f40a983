import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { compressed } from "./compress.ts";

const server = process.env["ORTOO_URL"] ?? "http://localhost:6632";

export default defineConfig({
  base: "./", // relative, so that it works behind any path prefix
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: fileURLToPath(new URL("../src/ortoo/doors/http/dashboard_files", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the content security policy takes no inline files
    modulePreload: { polyfill: false }, // that would be an inline script
  },
  plugins: [compressed()],
  server: { proxy: { "/v1": { target: server, ws: true, changeOrigin: true } } },
  test: { environment: "happy-dom", include: ["tests/**/*.test.{ts,tsx}"] },
});
