// What a program that uses node-redis does, against Foreshore. Arguments: port, protocol (2 or 3). Prints "all is well".

const assert = require('node:assert')
const { createClient, WatchError } = require('redis')

const [port, RESP] = process.argv.slice(2).map(Number)

async function values(db) {
  assert.equal(await db.ping(), 'PONG')
  assert.equal(await db.set('greeting', 'hello'), 'OK')
  assert.equal(await db.get('greeting'), 'hello')
  assert.equal(await db.get('absent'), null)
  assert.equal(await db.incrBy('counter', 42), 42)
  await db.mSet({ a: '1', b: '2' })
  assert.deepEqual(await db.mGet(['a', 'x', 'b']), ['1', null, '2'])
  assert.equal(await db.del(['a', 'b', 'counter']), 3)
}

async function transactions(db) {
  assert.deepEqual(await db.multi().set('x', '1').incr('x').get('x').exec(), ['OK', 2, '2'])
  const other = await db.duplicate().connect()
  await other.watch('x')
  await db.set('x', '10')
  await assert.rejects(other.multi().incr('x').exec(), WatchError)
  other.destroy()
}

async function many(db) {
  const rows = Array.from({ length: 1000 }, (_, n) => `row:${String(n).padStart(4, '0')}`)
  await Promise.all(rows.map((row) => db.set(row, row)))
  const found = []
  for await (const keys of db.scanIterator({ MATCH: 'row:*', COUNT: 100 })) found.push(...[keys].flat())
  assert.deepEqual(found.sort(), rows)
  assert.deepEqual(await db.sendCommand(['KV.RANGE', '-', '+', 'LIMIT', '1', 'KEYS']), ['greeting'])
}

async function main() {
  const db = await createClient({ RESP, socket: { port } }).connect()
  await values(db)
  await transactions(db)
  await many(db)
  await assert.rejects(db.expire('greeting', 10), /expire/)
  assert.match(await db.info(), /redis_mode:standalone/)
  await db.flushDb()
  assert.equal(await db.dbSize(), 0)
  db.destroy()
  console.log('all is well')
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
