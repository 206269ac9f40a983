/** Who this is, what the server is, its settings and its namespaces. */

import type { JSX } from "preact";
import { call, may, me, setToken, token, isLockedOut } from "../api";
import { useData } from "../data";
import { bytes, count } from "../format";
import { Time } from "../marks";
import { Failure, Heading, Loading } from "../parts";
import { theme, toggleTheme } from "../theme";
import type { NamespaceInfo, Setting } from "../types";

function show(value: unknown): string {
  if (value === null || value === undefined) return "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function SettingsPage(): JSX.Element {
  const isAdmin = may("admin");
  const settings = useData(isAdmin ? "settings" : null, (signal) => call<{ settings: Setting[] }>(["settings"], { signal }));
  const spaces = useData("namespaces", (signal) => call<{ namespaces: NamespaceInfo[] }>(["namespaces"], { query: { limit: 1000 }, signal }), 10);
  return (
    <>
      <Heading title="Settings">
        <button type="button" onClick={toggleTheme}>
          {theme.value === "dark" ? "Light" : "Dark"} colours
        </button>
        {token.value !== null && (
          <button
            type="button"
            onClick={() => {
              setToken(null);
              isLockedOut.value = me.value?.needs_token ?? true;
            }}
          >
            Forget the token
          </button>
        )}
      </Heading>
      {me.value && (
        <p class="facts">
          <span>ortoo {me.value.server.version}</span>
          <span>
            running since <Time at={me.value.server.started} />
          </span>
          <span>store {me.value.server.store}</span>
          <span>you are {me.value.principal ?? "anonymous"}</span>
          <span>you may {me.value.scopes.join(", ") || "nothing"}</span>
          {me.value.namespaces && <span>in {me.value.namespaces.join(", ")}</span>}
          {me.value.expires !== null && (
            <span>
              until <Time at={me.value.expires} />
            </span>
          )}
        </p>
      )}
      <h2>Namespaces</h2>
      <Failure error={spaces.error} />
      <div class="scroll" tabIndex={0} role="region" aria-label="Namespaces">
        <table>
          <thead>
            <tr>
              <th scope="col">namespace</th>
              {["topics", "groups", "messages", "bytes"].map((name) => (
                <th key={name} scope="col" class="num">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {spaces.data?.namespaces.map((space) => (
              <tr key={space.name}>
                <th scope="row">{space.name}</th>
                <td class="num">{count(space.topics)}</td>
                <td class="num">{count(space.groups)}</td>
                <td class="num">{count(space.messages)}</td>
                <td class="num">{bytes(space.bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <h2>Server</h2>
      {!isAdmin && <p class="quiet">Settings are shown only for a token with the scope admin.</p>}
      <Failure error={settings.error} />
      <Loading isLoading={isAdmin && settings.isLoading} />
      {settings.data && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Settings of the server">
          <table>
            <thead>
              <tr>
                <th scope="col">setting</th>
                <th scope="col">value</th>
                <th scope="col">source</th>
              </tr>
            </thead>
            <tbody>
              {settings.data.settings.map((setting) => (
                <tr key={setting.name}>
                  <th scope="row" class="mono">
                    {setting.name}
                  </th>
                  <td class={setting.source === "default" ? "mono quiet" : "mono"}>{show(setting.value)}</td>
                  <td>{setting.source}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
