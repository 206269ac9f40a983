// MQTT.js under the control of a test: commands as lines of JSON on stdin; answers and events as lines of JSON on stdout.
// The argument is the folder in which MQTT.js is installed.
"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");

const mqtt = require(path.join(process.argv[2], "node_modules", "mqtt"));
const clients = new Map();

const tell = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const answer = (id, ok) => tell({ id, ok });
const refuse = (id, error) =>
  tell({ id, error: { reason: error.code ?? 0x80, text: String(error.message ?? error) } });

function fromProperties(found) {
  if (!found) return {};
  const user = [];
  for (const [name, values] of Object.entries(found.userProperties ?? {}))
    for (const value of [].concat(values)) user.push([name, value]);
  return {
    user,
    content_type: found.contentType,
    payload_format: found.payloadFormatIndicator === undefined ? undefined : Number(found.payloadFormatIndicator),
    response_topic: found.responseTopic,
    correlation_data: found.correlationData && found.correlationData.toString("base64"),
    message_expiry: found.messageExpiryInterval,
    topic_alias: found.topicAlias,
    subscription_ids:
      found.subscriptionIdentifier === undefined ? [] : [].concat(found.subscriptionIdentifier),
  };
}

function toUser(pairs) {
  const made = {};
  for (const [name, value] of pairs ?? []) made[name] = name in made ? [].concat(made[name], value) : value;
  return made;
}

function toProperties(asked) {
  const made = {};
  if (asked.user && asked.user.length) made.userProperties = toUser(asked.user);
  if (asked.content_type != null) made.contentType = asked.content_type;
  if (asked.payload_format != null) made.payloadFormatIndicator = Boolean(asked.payload_format);
  if (asked.response_topic != null) made.responseTopic = asked.response_topic;
  if (asked.correlation_data != null) made.correlationData = Buffer.from(asked.correlation_data, "base64");
  if (asked.message_expiry != null) made.messageExpiryInterval = asked.message_expiry;
  if (asked.topic_alias != null) made.topicAlias = asked.topic_alias;
  return made;
}

function toConnectOptions({ address, options }) {
  const isFive = options.version === 5;
  const made = {
    host: address.host,
    port: address.port,
    protocol: { tcp: "mqtt", tls: "mqtts", websocket: "ws", "websocket+tls": "wss" }[address.transport],
    path: address.transport.startsWith("websocket") ? address.path : undefined,
    ca: address.ca ? fs.readFileSync(address.ca) : undefined,
    protocolVersion: options.version,
    clientId: options.client_id,
    clean: options.clean,
    keepalive: options.keep_alive,
    username: options.user ?? undefined,
    password: options.password ?? undefined,
    reconnectPeriod: 0,
    connectTimeout: 20000,
    autoAssignTopicAlias: true,
  };
  if (isFive) {
    made.properties = {};
    if (options.session_expiry != null) made.properties.sessionExpiryInterval = options.session_expiry;
    if (options.receive_maximum != null) made.properties.receiveMaximum = options.receive_maximum;
    if (options.packet_bytes_max != null) made.properties.maximumPacketSize = options.packet_bytes_max;
    if (options.aliases_max != null) made.properties.topicAliasMaximum = options.aliases_max;
  }
  if (options.will) {
    const { topic, payload, qos, retain, delay, properties } = options.will;
    made.will = { topic, payload: Buffer.from(payload, "base64"), qos, retain };
    if (isFive) made.will.properties = { ...toProperties(properties), ...(delay == null ? {} : { willDelayInterval: delay }) };
  }
  return made;
}

const commands = {
  connect(id, command) {
    const client = mqtt.connect(toConnectOptions(command));
    clients.set(command.client, client);
    let isGreeted = false;
    let reason = null;
    client.on("connect", (connack) => {
      isGreeted = true;
      const told = connack.properties ?? {};
      answer(id, {
        session_present: connack.sessionPresent,
        assigned_id: told.assignedClientIdentifier,
        server_keep_alive: told.serverKeepAlive,
        receive_maximum: told.receiveMaximum,
        packet_bytes_max: told.maximumPacketSize,
        aliases_max: told.topicAliasMaximum,
      });
    });
    client.on("error", (error) => {
      if (!isGreeted) refuse(id, error);
      isGreeted = true;
    });
    client.on("disconnect", (packet) => {
      reason = packet.reasonCode;
    });
    client.on("close", () => tell({ client: command.client, ended: { reason } }));
    client.on("message", (topic, payload, packet) =>
      tell({
        client: command.client,
        message: {
          topic,
          payload: payload.toString("base64"),
          qos: packet.qos,
          retain: packet.retain,
          dup: packet.dup,
          properties: fromProperties(packet.properties),
          packet_id: packet.messageId ?? 0,
        },
      })
    );
  },

  subscribe(id, command) {
    const options = { qos: command.qos };
    if (command.is_five) {
      Object.assign(options, { nl: command.no_local, rap: command.retain_as_published, rh: command.retain_handling });
      options.properties = {};
      if (command.identifier != null) options.properties.subscriptionIdentifier = command.identifier;
      if (command.user.length) options.properties.userProperties = toUser(command.user);
    }
    clients.get(command.client).subscribe(command.filter, options, (error, granted, packet) => {
      if (packet && packet.granted) answer(id, { reason: packet.granted[0] });
      else if (error) refuse(id, error);
      else answer(id, { reason: granted[0].qos });
    });
  },

  unsubscribe(id, command) {
    clients.get(command.client).unsubscribe(command.filter, (error) => (error ? refuse(id, error) : answer(id, {})));
  },

  publish(id, command) {
    const options = { qos: command.qos, retain: command.retain };
    if (command.is_five) options.properties = toProperties(command.properties);
    clients.get(command.client).publish(command.topic, Buffer.from(command.payload, "base64"), options, (error, packet) => {
      if (error) refuse(id, error);
      else answer(id, { reason: packet?.reasonCode ?? 0 });
    });
  },

  disconnect(id, command) {
    const client = clients.get(command.client);
    clients.delete(command.client);
    if (!client) return answer(id, {});
    client.end(command.force, command.reason ? { reasonCode: command.reason } : {}, () => answer(id, {}));
  },
};

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const command = JSON.parse(line);
  try {
    commands[command.do](command.id, command);
  } catch (error) {
    refuse(command.id, error);
  }
}).on("close", () => process.exit(0));
